package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// answers is the provider's log, and presses Ctrl-C when the n-th answer of the server or of a node has been noted in it.
type answers struct {
	n     int64
	seen  atomic.Int64
	press context.CancelFunc
}

// Write looks at a line of the log.
func (a *answers) Write(line []byte) (int, error) {
	for _, message := range []string{`"PVE request"`, `"SSH connected"`, `"SSH command"`, `"SFTP"`} {
		if bytes.Contains(line, []byte(message)) && a.seen.Add(1) == a.n {
			a.press()
		}
	}
	return len(line), nil
}

// TestSnippetAndUploadInterrupted presses Ctrl-C after each answer of an apply that makes a file: each object is then in state or
// named, the next apply succeeds, and a destroy leaves nothing that it does not name.
func TestSnippetAndUploadInterrupted(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		who    rig.Identity
		config string
		left   func(*rig.World) []string
	}{
		"snippet": {rig.TokenSSH, rig.SnippetBlock("#cloud-config\n"), rig.SnippetsLeft},
		"disc":    {rig.TokenNoSSH, rig.CloudInitISOBlock("hostname: one"), rig.CloudInitISOs},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for n := int64(1); ; n++ {
				w := rig.NewWorld(t)
				ctx, cancel := context.WithCancel(t.Context())
				log := &answers{n: n, press: cancel}
				w.LogTo(log)
				s := w.Session(t, c.who, c.config)
				err := s.Converge(ctx)
				cancel()
				met := log.seen.Load() >= n
				said := fmt.Sprint(err, s.Diagnostics())
				if left := c.left(w); len(left) > 0 && len(s.Addresses()) == 0 && !strings.Contains(said, "web") {
					t.Errorf("at %d: %v is left, neither in state nor named: %s", n, left, said)
				}
				if err := s.Converge(t.Context()); err != nil {
					t.Errorf("at %d: %s; the next apply: %v", n, said, err)
				}
				if err := s.Destroy(t.Context()); err != nil {
					t.Errorf("at %d: %s; the destroy: %v", n, said, err)
				}
				if left := c.left(w); len(left) > 0 && !strings.Contains(fmt.Sprint(s.Diagnostics()), "stays: local:") {
					t.Errorf("at %d: %s; left: %v", n, said, left)
				}
				if !met {
					if n < 5 {
						t.Errorf("only %d answers", n)
					}
					break
				}
			}
		})
	}
}
