package ssh

import (
	"slices"
	"strings"
	"testing"
)

// TestSSHLoginShellThatPrints: text of the login shell's start-up files is neither taken for a volume's path nor for
// the words of a command; where it breaks SFTP, the error names it.
func TestSSHLoginShellThatPrints(t *testing.T) {
	for _, banner := range []string{"Welcome to pve1\n", "/etc/motd\n", "no line break", "\n", "/dev/zvol/a\n/dev/zvol/b\n"} {
		srv := newServer(t, func(_, line string) reply {
			if line == "qm unlock 100" {
				return reply{status: 2, stderr: "no such VM\n"}
			}
			return reply{stdout: "/dev/zvol/rpool/a\n"}
		})
		srv.banner, srv.files = banner, true
		shell := srv.shell(nil)
		if path, err := shell.VolumePath(t.Context(), "pve1", "a:vm-100-disk-0"); err != nil || path != "/dev/zvol/rpool/a" {
			t.Errorf("%q: path %q, %v", banner, path, err)
		}
		if err := shell.Unlock(t.Context(), "pve1", 100); err == nil || !strings.HasSuffix(err.Error(), "exit status 2: no such VM") {
			t.Errorf("%q: %v", banner, err)
		}
		for _, user := range []string{"root", "terraform"} {
			_, err := srv.shell(func(c *Config) { c.Username = user }).ReadFile(t.Context(), "pve1", "/x")
			if err == nil || !strings.Contains(err.Error(), "the login shell prints text: ") {
				t.Errorf("%s, %q: %v", user, banner, err)
			}
		}
	}
}

// TestSSHStrangeLoginShell: a login shell that runs no sh is named as the cause.
func TestSSHStrangeLoginShell(t *testing.T) {
	srv := newServer(t, always(reply{stdout: "Only git here.\n"}))
	srv.strange = true
	if path, err := srv.shell(nil).VolumePath(t.Context(), "pve1", "a:vm-100-disk-0"); err == nil || path != "" ||
		!strings.Contains(err.Error(), `the login shell did not run it: it printed "Only git here."`) {
		t.Errorf("%q, %v", path, err)
	}
}

// TestSSHPathIsOneLine: a path is one line that begins with "/".
func TestSSHPathIsOneLine(t *testing.T) {
	for _, out := range []string{"", "rbd:a/b\n", "/a\n/b\n", "iscsi://x/y\n"} {
		path, err := newServer(t, always(reply{stdout: out})).shell(nil).VolumePath(t.Context(), "pve1", "a:vm-100-disk-0")
		if err == nil || path != "" || !strings.Contains(err.Error(), "pvesm names no file and no device for it") {
			t.Errorf("%q: %q, %v", out, path, err)
		}
	}
}

// TestSSHFrame: a frame is found behind any text, and only as a line of its own.
func TestSSHFrame(t *testing.T) {
	for output, want := range map[string]string{
		"\n" + begun + "\nout\n":                             "out\n",
		"Welcome\n" + begun + "\n":                           "",
		"+ sh -c echo " + begun + " x\n\n" + begun + "\nout": "out",
	} {
		if own, framed := unframed(output); own != want || !framed {
			t.Errorf("%q: %q, %t", output, own, framed)
		}
	}
	for _, output := range []string{"", "out", begun + " x\n"} {
		if own, framed := unframed(output); own != output || framed {
			t.Errorf("%q: %q, %t", output, own, framed)
		}
	}
	if line := framed("qm unlock 100"); strings.Count(line, "'") != 2 || strings.ContainsAny(line, "\\!\n") ||
		!slices.Equal(strings.Fields(line)[len(strings.Fields(line))-3:], []string{"qm", "unlock", "100"}) {
		t.Errorf("a login shell could read %s otherwise", line)
	}
}
