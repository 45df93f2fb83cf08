package destroy

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestSnippetIsFreed: the guard lets through the removal of a snippet that no guest uses, and nothing else.
func TestSnippetIsFreed(t *testing.T) {
	r := newRig(t, asToken)
	shell := &shellRecord{r: r}
	r.useShell(shell)
	none := func(context.Context) (guard.Evidence, error) { return guard.Evidence{}, nil }
	f := guard.Snippet{Node: "pve1", Volume: "local:snippets/user.yaml", Path: "/var/lib/vz/snippets/user.yaml", SHA256: "x"}
	r.change(func(w *state.World) { w.Guests[8000].Config["cicustom"] = "user=" + f.Volume })
	used := (*guard.InUseError)(nil)
	if err := r.s.Files().FreeSnippet(t.Context(), f); !errors.As(err, &used) || used.Volume != f.Volume {
		t.Errorf("got %v", err)
	}
	if err := r.s.RemoveByRoot(t.Context(), f, none); !errors.Is(err, guard.ErrNoEvidence) {
		t.Errorf("without evidence: %v", err)
	}
	if len(shell.calls) > 0 {
		t.Errorf("did %q", shell.calls)
	}
	r.change(func(w *state.World) { delete(w.Guests[8000].Config, "cicustom") })
	if err := r.s.Files().FreeSnippet(t.Context(), f); err != nil || !slices.Equal(shell.calls, []string{"remove " + f.Path}) {
		t.Errorf("%v, did %q", err, shell.calls)
	}
}
