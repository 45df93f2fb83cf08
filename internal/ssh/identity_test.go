package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestSSHShowsTheCertificate runs the question in real login shells, on hosts whose openssl answers as told.
func TestSSHShowsTheCertificate(t *testing.T) {
	const custom, own, served = "x509 -noout -fingerprint -sha256 -in /etc/pve/local/pveproxy-ssl.pem",
		"x509 -noout -fingerprint -sha256 -in /etc/pve/local/pve-ssl.pem", "x509 -noout -fingerprint -sha256"
	certificate := func(n int) string { return strings.Repeat(fmt.Sprintf("%02X:", n), 31) + fmt.Sprintf("%02X", n) }
	line, err := quote([]string{"sh", "-c", showCertificate})
	if err != nil {
		t.Fatal(err)
	}
	if line, err = framed("pve1", line); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		answers map[string]int
		want    string
	}{
		"root, a certificate of the operator": {map[string]int{custom: 1, own: 2, served: 3}, certificate(1)},
		"root, PVE's own certificate":         {map[string]int{own: 2, served: 3}, certificate(2)},
		"another user":                        {map[string]int{served: 3}, certificate(3)},
		"no node of PVE":                      {nil, ""},
	} {
		script := "#!/bin/sh\ncase \"$*\" in\n\"s_client -connect localhost:8006\") echo PEM;;\n"
		for arguments, n := range row.answers {
			test := ":"
			if arguments == served {
				test = `[ "$(cat)" = PEM ]`
			}
			script += fmt.Sprintf("%q) %s && echo sha256 Fingerprint=%s;;\n", arguments, test, certificate(n))
		}
		script += "*) echo no >&2; exit 1;;\nesac\n"
		environment := hostNamed(t, "echo pve1")
		dir, _, _ := strings.Cut(strings.TrimPrefix(environment[len(environment)-1], "PATH="), string(os.PathListSeparator))
		if err := os.WriteFile(filepath.Join(dir, "openssl"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		for shell := range loginShells(t) {
			command := exec.Command(shell, "-c", line)
			command.Env = environment
			out, err := command.Output()
			shown := append(shownForm.FindStringSubmatch(string(out)), "", "")[1]
			if err != nil || shown != row.want {
				t.Errorf("%s, %s: %q, %v", name, shell, out, err)
			}
		}
	}
}

const (
	certificateA = "AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA"
	certificateB = "BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB:BB"
)

// TestSSHComparesTheCertificate: a command runs on a host that shows the certificate that the API has, and where one of
// the two has none. The last answer of each side is given again.
func TestSSHComparesTheCertificate(t *testing.T) {
	failed := errors.New("the API failed")
	for name, row := range map[string]struct {
		shown, known []string
		err          error
		user         string
		runs         bool
	}{
		"the same":                    {shown: []string{certificateA}, known: []string{certificateA}, runs: true},
		"the same in small letters":   {shown: []string{certificateA}, known: []string{strings.ToLower(certificateA)}, runs: true},
		"renewed before the API":      {shown: []string{certificateA, certificateB}, known: []string{certificateB}, runs: true},
		"renewed before the host":     {shown: []string{certificateB}, known: []string{certificateA, certificateB}, runs: true},
		"the host shows none":         {shown: []string{""}, known: []string{certificateB}, runs: true},
		"the API has none":            {shown: []string{certificateA}, known: []string{""}, runs: true},
		"the API does not answer":     {shown: []string{certificateA}, known: []string{""}, err: failed},
		"another one":                 {shown: []string{certificateA}, known: []string{certificateB}},
		"another one, as a sudo user": {shown: []string{certificateA}, known: []string{certificateB}, user: "terraform"},
	} {
		t.Run(name, func(t *testing.T) {
			next := func(answers *[]string) string {
				answer := (*answers)[0]
				if len(*answers) > 1 {
					*answers = (*answers)[1:]
				}
				return answer
			}
			srv := newServer(t, func(_, line string) reply {
				if strings.Contains(line, "openssl") {
					return reply{stdout: "SHA256 Fingerprint=" + next(&row.shown) + "\n"}
				}
				return reply{}
			})
			shell := srv.shell(func(c *Config) {
				c.Username = row.user
				c.Certificate = func(context.Context, string, string) (string, error) { return next(&row.known), row.err }
			})
			err := shell.Unlock(t.Context(), "pve1", 100)
			ran := strings.Contains(strings.Join(last(srv), "\n"), "qm unlock 100")
			if ran != row.runs || (err == nil) != row.runs {
				t.Fatalf("ran %t, %v", ran, err)
			}
			if row.runs || row.err != nil {
				if !errors.Is(err, row.err) {
					t.Errorf("%v", err)
				}
				return
			}
			want := `unlock VM 100 on node pve1: pve1:22 is node pve1 of another cluster: PVE's certificate there is ` +
				`AA:AA:AA:AA:AA:AA:AA:AA…, and that of the API's node pve1 is BB:BB:BB:BB:BB:BB:BB:BB… (SHA-256). Nothing was run ` +
				`there. Set ssh.nodes["pve1"].address in the provider, or PROXMOX_VE_SSH_NODES=pve1=ADDRESS`
			if row.user != "" {
				want += `. If it is the right host, its pveproxy still serves an old certificate: run "systemctl restart pveproxy" there`
			}
			if err.Error() != want {
				t.Errorf("%v\nwant %s", err, want)
			}
		})
	}
}

func last(srv *server) []string {
	_, commands := srv.seen()
	return commands[max(len(commands)-1, 0):]
}

// TestSSHComparesOncePerConnection: many commands and files at once cost one question to the host. The API's answer
// comes under the caller's context.
func TestSSHComparesOncePerConnection(t *testing.T) {
	srv, dir := fileServer(t)
	srv.command = func(_, line string) reply {
		if strings.Contains(line, "openssl") {
			return reply{stdout: "sha256 Fingerprint=" + certificateA + "\n"}
		}
		return reply{}
	}
	asking := make(chan struct{}, 1)
	shell := srv.shell(func(c *Config) {
		c.Certificate = func(ctx context.Context, node, seen string) (string, error) {
			if ctx.Value(held{}) == "slow" {
				asking <- struct{}{}
				<-ctx.Done()
				return "", ctx.Err()
			}
			return seen, nil
		}
	})
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), held{}, "slow"))
	gone := errors.New("interrupted")
	go func() { <-asking; cancel(gone) }()
	if err := shell.Unlock(ctx, "pve1", 100); !errors.Is(err, gone) {
		t.Errorf("interrupted: %v", err)
	}
	for range 2 {
		var group sync.WaitGroup
		for i := range 2 * maxSessions {
			group.Go(func() {
				file := filepath.Join(dir, fmt.Sprint(i))
				if err := shell.CreateFile(t.Context(), "pve1", file, nil, 0o600); err != nil && !os.IsExist(errors.Unwrap(err)) {
					t.Errorf("create: %v", err)
				}
				if err := shell.Unlock(t.Context(), "pve1", 100); err != nil {
					t.Errorf("unlock: %v", err)
				}
			})
		}
		group.Wait()
		srv.kill()
	}
	logins, commands := srv.seen()
	questions := 0
	for _, line := range commands {
		if strings.Contains(line, "openssl") {
			questions++
		}
	}
	if logins != 2 || questions != 2 || len(commands) != 2+4*maxSessions {
		t.Errorf("%d logins, %d questions, %d commands", logins, questions, len(commands))
	}
}
