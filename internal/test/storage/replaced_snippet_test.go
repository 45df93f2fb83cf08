package storage_test

import (
	"fmt"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestReplacedSnippetChangesItsContent: a snippet that is replaced can get other content in the same plan, since its own file is no
// conflict. A third party's content is still one, in the plan or, if it has come since, in the apply.
func TestReplacedSnippetChangesItsContent(t *testing.T) {
	t.Parallel()
	const address, one, two, theirs = "proxmox_snippet.web", "hostname: one", "hostname: two", "theirs"
	replacing := terraformtest.Replacing(address)
	for name, c := range map[string]struct {
		tainted       bool
		options       []terraformtest.PlanOption
		before, since string // content of a third party
		refused       string // by the plan
		fails         string // the apply
	}{
		"tainted":                          {tainted: true},
		"tainted, without a refresh":       {tainted: true, options: []terraformtest.PlanOption{terraformtest.WithoutRefresh()}},
		"replaced":                         {options: []terraformtest.PlanOption{replacing}},
		"tainted and changed by others":    {tainted: true, before: theirs, refused: "It has other content"},
		"tainted, changed since the plan":  {tainted: true, since: theirs, fails: "A third party has changed the snippet"},
		"replaced, changed since the plan": {options: []terraformtest.PlanOption{replacing}, since: theirs, fails: "A third party has changed the snippet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenSSH, rig.SnippetBlock(one))
			rig.Must(t, s.Converge(t.Context()))
			s.Taint(address, c.tainted)
			if c.before != "" {
				putSnippet(w, c.before)
			}
			w.Reconfigure(t, s, rig.TokenSSH, rig.SnippetBlock(two))
			plan, err := s.Plan(t.Context(), c.options...)
			if c.refused != "" {
				rig.MustSay(t, err, c.refused)
				return
			}
			rig.Must(t, err)
			if c.since != "" {
				putSnippet(w, c.since)
				rig.MustSay(t, s.Apply(t.Context(), plan), c.fails)
				if is := snippetOn(w, "pve2"); is != c.since {
					t.Errorf("it holds %q", is)
				}
				return
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			if is, owned := snippetOn(w, "pve2"), terraformtest.ShowValue(s.Attr(address, "owned")); is != two || owned != "true" {
				t.Errorf("it holds %q, owned %s", is, owned)
			}
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
			if left := rig.SnippetsLeft(w); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestReplacedSnippetIsNotWrittenOver: with create_before_destroy the new content comes first, and finds the file there. It is refused,
// whosever file that is, and the resource stays as it was.
func TestReplacedSnippetIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	const address, first = "proxmox_snippet.web", "lifecycle { create_before_destroy = true }"
	for _, there := range []string{"hostname: one", "theirs"} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenSSH, rig.SnippetBlock("hostname: one", first))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.TokenSSH, rig.SnippetBlock("hostname: two", first))
		plan, err := s.Plan(t.Context(), terraformtest.Replacing(address))
		rig.Must(t, err)
		putSnippet(w, there)
		rig.MustSay(t, s.Apply(t.Context(), plan), "There is local:snippets/web.yaml on node pve2 already", "It was not touched")
		if is := snippetOn(w, "pve2"); is != there || len(s.Addresses()) != 1 {
			t.Errorf("it holds %q, and the state %v", is, s.Addresses())
		}
		rig.Must(t, s.Converge(t.Context())) // as a change in place
	}
}

// TestTwoSnippetsOfOneName: two resources that want one file with different content are refused in the plan, in whatever order Terraform
// plans them, and whichever of them is new: for the other's plan, or for the file where the other has not been refreshed yet.
func TestTwoSnippetsOfOneName(t *testing.T) {
	t.Parallel()
	block := func(name, node, storage, content string) string {
		return fmt.Sprintf("resource \"proxmox_snippet\" %q {\n  node = %q\n  storage = %q\n  name = \"web.yaml\"\n  content = %q\n}\n",
			name, node, storage, content)
	}
	const nfs = "shared-nfs"
	one, two := block("a", "pve2", "local", "one"), block("b", "pve2", "local", "two")
	for name, c := range map[string]struct {
		before, after string
		tainted       string
		refused       bool
	}{
		"another comes":                       {before: one, after: one + two, refused: true},
		"an earlier one comes":                {before: two, after: one + two, refused: true},
		"another comes to a tainted one":      {before: one, after: one + two, tainted: "proxmox_snippet.a", refused: true},
		"both come":                           {after: one + two, refused: true},
		"another address and content":         {before: one, after: two, refused: true},
		"another address":                     {before: one, after: block("b", "pve2", "local", "one")},
		"both of one content":                 {before: one, after: one + block("b", "pve2", "local", "one")},
		"both of one content, one tainted":    {before: one, after: block("a", "pve2", "local", "two") + two, tainted: "proxmox_snippet.a"},
		"two nodes":                           {before: one, after: one + block("b", "pve1", "local", "two")},
		"two nodes with a shared storage":     {after: block("a", "pve2", nfs, "one") + block("b", "pve1", nfs, "two"), refused: true},
		"two names of a storage":              {after: one + block("b", "pve2", "local-alias", "two"), refused: true},
		"another name of the storage":         {before: one, after: block("a", "pve2", "local-alias", "two")},
		"a changed one and another node's":    {before: one, after: block("a", "pve2", "local", "two") + block("b", "pve1", "local", "three")},
		"another comes as the first is moved": {before: one, after: block("a", "pve1", "local", "one") + two, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Storages[nfs].Content = append(world.Storages[nfs].Content, "snippets")
			})
			sameDirectory(w)
			s := w.Session(t, rig.TokenSSH, c.before)
			rig.Must(t, s.Converge(t.Context()))
			if c.tainted != "" {
				s.Taint(c.tainted, true)
			}
			w.Reconfigure(t, s, rig.TokenSSH, c.after)
			plan, err := s.Plan(t.Context())
			if c.refused {
				rig.MustSay(t, err, "web.yaml on node ", "et name to another one")
				if n := len(s.Diagnostics().Errors()); n != 1 {
					t.Errorf("%d errors: %s", n, s.Diagnostics())
				}
				return
			}
			rig.Must(t, err)
			if c.tainted == "" {
				rig.Must(t, s.Apply(t.Context(), plan))
			} else {
				_ = s.Apply(t.Context(), plan) // the other may come before the first has gone: the next apply goes
			}
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
		})
	}
}
