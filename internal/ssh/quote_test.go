package ssh

import (
	"bytes"
	"os/exec"
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
				command := exec.Command(shell, "-c", framed(line))
				command.Stderr = &said
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

func TestQuoteRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {}, {""}, {"echo", "a\x00b"}} {
		if line, err := quote(args); err == nil {
			t.Errorf("quote(%q) = %q", args, line)
		}
	}
}
