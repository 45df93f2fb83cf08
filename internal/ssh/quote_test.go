package ssh

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestQuoteIsRead gives quoted words to a real shell.
func TestQuoteIsRead(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh on this machine")
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.StringMatching(`[ -~\n\t]{0,12}`), rapid.StringMatching(`[A-Za-z0-9=~'"$\\!*?-]{0,6}`))
		words := rapid.SliceOfN(word, 0, 4).Draw(t, "words")
		line, err := quote(append([]string{"printf", `%s\036`}, words...))
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(sh, "-c", line).Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		want := strings.Join(words, "\x1e") + "\x1e" // with no words, printf still prints the separator
		if string(out) != want {
			t.Fatalf("%s gives %q, want %q", line, out, want)
		}
	})
}

func TestQuoteRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {}, {""}, {"echo", "a\x00b"}} {
		if line, err := quote(args); err == nil {
			t.Errorf("quote(%q) = %q", args, line)
		}
	}
}
