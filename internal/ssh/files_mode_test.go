package ssh

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestReplacedFileKeepsItsExecuteBits: a file that the node runs can be run after its content was replaced. Of the old
// mode only the wanted bits stay, so no other user gets to read it.
func TestReplacedFileKeepsItsExecuteBits(t *testing.T) {
	for what, c := range map[string]struct{ was, set, kept, is fs.FileMode }{
		"a script":                {0o755, 0o600, 0o111, 0o711},
		"a script of its owner":   {0o700, 0o600, 0o111, 0o700},
		"a text":                  {0o644, 0o600, 0o111, 0o600},
		"a script that ends":      {0o755, 0o600, 0, 0o600},
		"a text becomes a script": {0o644, 0o700, 0o111, 0o700},
		"it is gone":              {0, 0o600, 0o111, 0o600},
	} {
		srv, dir := fileServer(t)
		name, was, seen := filepath.Join(dir, "a"), []byte("one"), false
		if c.was != 0 {
			if err := errors.Join(os.WriteFile(name, was, 0o600), os.Chmod(name, c.was)); err != nil {
				t.Fatal(err)
			}
		}
		srv.onFile = func() bool {
			for _, file := range namesIn(t, dir) {
				info, err := os.Lstat(filepath.Join(dir, file))
				if err == nil && file != "a" && info.Size() > 0 {
					if seen = true; info.Mode() != c.is {
						t.Errorf("%s: the new file is %s when it has %d bytes", what, info.Mode(), info.Size())
					}
				}
			}
			return false
		}
		err := srv.shell(nil).ReplaceFile(t.Context(), "pve1", name, SHA256Of(was), []byte("two"), c.set, c.kept)
		if info, statErr := os.Stat(name); errors.Join(err, statErr) != nil || info.Mode() != c.is || !seen {
			t.Errorf("%s: %v, %v, %v; seen before it had its name: %t", what, info, err, statErr, seen)
		}
	}
}
