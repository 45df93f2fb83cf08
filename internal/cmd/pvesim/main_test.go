package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"--nodes", "a,b", "--profile", "9.2", "--task-time", "1ms"}, w) }()
	text, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var line map[string]string
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, key := range []string{
		"endpoint", "ca_file", "api_token", "root_username", "root_password", "ssh_address", "ssh_addresses",
		"ssh_private_key_file",
		"ssh_known_hosts_file", "control",
	} {
		if line[key] == "" {
			t.Errorf("%s is missing: %s", key, text)
		}
	}
	client := clientOf(t, line)
	if body := get(t, client, line["endpoint"]+"/api2/json/version", line["api_token"]); !strings.Contains(body,
		`"release":"9.2"`) {
		t.Errorf("version: %s", body)
	}
	if body := get(t, client, line["control"]+"/ops", ""); !strings.Contains(body, `"path":"/version"`) {
		t.Errorf("operations: %s", body)
	}
	for _, key := range []string{"ssh_private_key_file", "ssh_known_hosts_file"} {
		if content, err := os.ReadFile(line[key]); err != nil || len(content) == 0 {
			t.Errorf("%s: %v", key, err)
		}
	}
	if c, err := net.DialTimeout("tcp", line["ssh_address"], 5*time.Second); err != nil {
		t.Error(err)
	} else {
		_ = c.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	if _, err := os.Stat(line["ca_file"]); !os.IsNotExist(err) {
		t.Error("the temporary files remain")
	}
}

// TestForGuides: without a world of one's own the cluster is the one on which the guides are tested, whose nodes
// download a stand-in.
func TestForGuides(t *testing.T) {
	world := filepath.Join(t.TempDir(), "world.yaml")
	if err := os.WriteFile(world, []byte("nodes: [{name: a}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args             []string
		furnished, apart bool // with what the guides name; without a way to other machines
	}{
		{nil, true, true}, {[]string{"--nodes", "a"}, true, true}, {[]string{"--internet"}, true,
			false}, {[]string{"--world", world}, false, false},
	} {
		o, err := options(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if is := o.World.Storages["esxi"] != nil && len(o.World.Mappings) > 0; is != c.furnished ||
			(o.Web != nil) != c.apart {
			t.Errorf("%v: furnished %v, web %v", c.args, is, o.Web)
		}
		if want := o.ForGuides().World; c.furnished && (len(o.World.Volumes) != len(want.Volumes) ||
			len(o.World.Nodes) != len(want.Nodes)) {
			t.Errorf("%v: %d volumes, the guides' world has %d", c.args, len(o.World.Volumes), len(want.Volumes))
		}
	}
}

func TestBadArguments(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.yaml")
	if err := os.WriteFile(broken, []byte("nodes: [{name: a}]\nguests: [{vmid: 100, node: b}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--profile", "6.4"}, {"--nodes", ","}, {"extra"}, {"--listen", "nowhere:x"}, {"--world",
			filepath.Join(dir, "none.yaml")},
		{"--world", broken}, {"--world", broken, "--nodes", "a"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v accepted", args)
		}
	}
}

// clientOf trusts the authority that the ready line names.
func clientOf(t *testing.T, line map[string]string) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(line["ca_file"])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool,
		MinVersion: tls.VersionTLS12}}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// get is the body of an answer; with a token of the API.
func get(t *testing.T, client *http.Client, url, token string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		q.Header.Set("Authorization", "PVEAPIToken="+token)
	}
	resp, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, resp.Status, err)
	}
	return string(body)
}
