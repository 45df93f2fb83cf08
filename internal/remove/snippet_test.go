package remove

import (
	"errors"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestSnippetIsFreed: through the door goes what no guest uses, and nothing else.
func TestSnippetIsFreed(t *testing.T) {
	r := newRig(t, asToken)
	shell := &shellRecord{r: r}
	r.s.shell = shell
	f := Snippet{Node: "pve1", Volume: "local:snippets/user.yaml", Path: "/var/lib/vz/snippets/user.yaml", SHA256: "x"}
	r.change(func(w *state.World) { w.Guests[8000].Config["cicustom"] = "user=" + f.Volume })
	used := (*InUseError)(nil)
	if err := r.s.FreeSnippet(t.Context(), f); !errors.As(err, &used) || used.Volume != f.Volume {
		t.Errorf("got %v", err)
	}
	if err := r.s.removeByShell(t.Context(), Evidence{}, f); !errors.Is(err, errNoEvidence) {
		t.Errorf("without evidence: %v", err)
	}
	if len(shell.calls) > 0 {
		t.Errorf("did %q", shell.calls)
	}
	r.change(func(w *state.World) { delete(w.Guests[8000].Config, "cicustom") })
	if err := r.s.FreeSnippet(t.Context(), f); err != nil || !slices.Equal(shell.calls, []string{"remove " + f.Path}) {
		t.Errorf("%v, did %q", err, shell.calls)
	}
}
