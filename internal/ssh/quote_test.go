package ssh

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// loginShells are those of this machine, and how words can be spoiled for each: csh refuses line breaks.
func loginShells(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for shell, refuses := range map[string]string{"sh": "", "bash": "", "dash": "", "zsh": "", "fish": "", "tcsh": "\n"} {
		if path, err := exec.LookPath(shell); err == nil {
			found[path] = refuses
		}
	}
	if len(found) == 0 {
		t.Skip("no shell on this machine")
	}
	return found
}

// TestSSHQuoteIsRead gives framed words to real login shells: the command gets them as they are, and its output is told
// from theirs.
func TestSSHQuoteIsRead(t *testing.T) {
	for shell, refuses := range loginShells(t) {
		t.Run(shell, func(t *testing.T) {
			environment := hostNamed(t, "echo pve1")
			rapid.Check(t, func(t *rapid.T) {
				word := rapid.OneOf(rapid.StringMatching(`[ -~\n\t]{0,12}`), rapid.StringMatching(`[A-Za-z0-9=~'"$\\!*?%-]{0,6}`))
				words := rapid.SliceOfN(word, 0, 4).Draw(t, "words")
				if refuses != "" && strings.ContainsAny(strings.Join(words, ""), refuses) {
					return
				}
				line, err := quote(append([]string{"printf", "%s\x1e"}, words...))
				if err != nil {
					t.Fatal(err)
				}
				var said bytes.Buffer
				whole, err := framed("pve1", line)
				if err != nil {
					t.Fatal(err)
				}
				command := exec.Command(shell, "-c", whole)
				command.Stderr, command.Env = &said, environment
				out, err := command.Output()
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				want := strings.Join(words, "\x1e") + "\x1e" // with no words, printf still prints the separator
				if own, begun := unframed(string(out)); own != want || !begun {
					t.Fatalf("%s gives %q, want %q", line, out, want)
				}
				if own, begun := unframed(said.String()); own != "" || !begun {
					t.Fatalf("%s says %q", line, said.String())
				}
			})
		})
	}
}

// hostNamed is the environment of a host whose uname is that script.
func hostNamed(t *testing.T, script string) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "uname"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestSSHFrameComparesTheHost gives real login shells a command for node pve1 on hosts of several names.
func TestSSHFrameComparesTheHost(t *testing.T) {
	for shell := range loginShells(t) {
		for _, row := range []struct {
			script, host string
			runs         bool
		}{
			{script: `[ "$*" = -n ] && echo pve1`, runs: true},
			{script: "echo pve1.example.org", runs: true},
			{script: "echo pve2", host: "pve2"},
			{script: "echo pve2.pve1.example.org", host: "pve2.pve1.example.org"},
			{script: "echo pve10", host: "pve10"},
			{script: "echo pve", host: "pve"},
			{script: "echo PVE1", host: "PVE1"},
			{script: "echo '*'", host: "*"},
			{script: "exit 1"},
		} {
			environment := hostNamed(t, row.script)
			for _, words := range []string{"echo 'it runs'", ""} {
				line, err := framed("pve1", words)
				if err != nil {
					t.Fatal(err)
				}
				command := exec.Command(shell, "-c", line)
				command.Env = environment
				out, err := command.Output()
				own, begun := unframed(string(out))
				host, refused := refusedBy(string(out))
				ran := strings.Contains(own, "it runs")
				if begun != row.runs || refused == row.runs || host != row.host || (err == nil) != row.runs ||
					ran != (row.runs && words != "") {
					t.Errorf("%s, %q on %q: %q, %v", shell, words, row.script, out, err)
				}
			}
		}
	}
	if line, err := framed("", "reboot"); err == nil {
		t.Errorf("a frame without a node: %s", line)
	}
}

func TestQuoteRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {}, {""}, {"echo", "a\x00b"}} {
		if line, err := quote(args); err == nil {
			t.Errorf("quote(%q) = %q", args, line)
		}
	}
}
