package storage_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestRewrittenHookScriptStaysExecutable: others' VMs name an imported snippet as their hook script, and PVE starts none of them
// unless it can be run. A change of its content leaves that as it is, whether kind says so or not; a change of kind is what it says.
// No user of the node who is not root may read the new content.
func TestRewrittenHookScriptStaysExecutable(t *testing.T) {
	t.Parallel()
	const one, two, hook = "#!/bin/sh\nexit 0\n", "#!/bin/sh\n# two\nexit 0\n", `kind = "hookscript"`
	for name, c := range map[string]struct {
		was         state.Mode
		first, then string // kind
		content     string
		is          state.Mode
	}{
		"no kind":                  {was: 0o755, content: two, is: 0o711},
		"no kind, root's":          {was: 0o700, content: two, is: 0o700},
		"another kind":             {was: 0o755, first: `kind = "user-data"`, then: `kind = "user-data"`, content: two, is: 0o711},
		"a text":                   {was: 0o644, content: two, is: 0o600},
		"a hook script":            {was: 0o755, first: hook, then: hook, content: two, is: 0o700},
		"it becomes a hook script": {was: 0o644, then: hook, content: one, is: 0o700},
		"it is no hook script now": {was: 0o755, first: hook, content: one, is: 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			putSnippet(w, one)
			w.Change(func(world *state.World) {
				world.Volume("pve2", "local:snippets/web.yaml").Mode = c.was
				world.Guests[777] = &state.Guest{VMID: 777, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "other",
					"memory": "512", "hookscript": "local:snippets/web.yaml"}}
			})
			s := w.Session(t, rig.TokenSSH, rig.SnippetBlock(one, c.first))
			rig.Must(t, s.Import(t.Context(), "proxmox_snippet.web", "pve2/local:snippets/web.yaml"))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenSSH, rig.SnippetBlock(c.content, c.then))
			rig.Must(t, s.Converge(t.Context()))
			var is state.Mode
			w.Change(func(world *state.World) { is = world.Volume("pve2", "local:snippets/web.yaml").Mode })
			if got := snippetOn(w, "pve2"); got != c.content || is != c.is {
				t.Errorf("the file holds %q and is %s, wanted %s", got, is.Bits(), c.is.Bits())
			}
			if c.is&0o111 != 0 {
				rig.RunTask(t, w, "/nodes/pve2/qemu/777/status/start", "")
			}
		})
	}
}
