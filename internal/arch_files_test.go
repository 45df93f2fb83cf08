package internal_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// programs are how built programs begin, of Linux, Windows and macOS.
var programs = [][]byte{[]byte("\x7fELF"), []byte("MZ"), []byte("\xcf\xfa\xed\xfe"), []byte("\xca\xfe\xba\xbe")}

// TestNoPrograms: no built program lies where it would be committed with the next `git add`. They are large, and stay in the history.
func TestNoPrograms(t *testing.T) {
	root := os.DirFS("..")
	ignored, err := fs.ReadFile(root, ".gitignore")
	if err != nil {
		t.Fatal(err)
	}
	entries := strings.Fields(string(ignored))
	looked := 0
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case isIgnored(entries, name, entry):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		looked++
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		head := make([]byte, 4)
		if n, err := io.ReadFull(file, head); err != nil && n == 0 {
			return nil
		}
		for _, magic := range programs {
			if bytes.HasPrefix(head, magic) {
				t.Errorf("%s is a built program", name)
			}
		}
		return nil
	})
	if err != nil || looked < 500 {
		t.Errorf("looked at %d files: %v", looked, err)
	}
}

// isIgnored reports whether git leaves a file or directory out, by the entries that name one from the root or a pattern for all.
func isIgnored(entries []string, name string, entry fs.DirEntry) bool {
	if name == ".git" {
		return true
	}
	for _, ignored := range entries {
		pattern, at := strings.TrimSuffix(ignored, "/"), entry.Name()
		if rest, rooted := strings.CutPrefix(pattern, "/"); rooted {
			pattern, at = rest, name
		}
		if ok, err := filepath.Match(pattern, at); err == nil && ok && (entry.IsDir() || !strings.HasSuffix(ignored, "/")) {
			return true
		}
	}
	return false
}
