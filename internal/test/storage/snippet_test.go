package storage_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

func snippetWithVM(content string) string {
	return rig.SnippetBlock(content, `kind = "user-data"`) + `
resource "proxmox_vm" "web" {
  node = "pve2"
  vmid = 300
  cloud_init = { storage = "local-zfs", custom = { user = proxmox_snippet.web.volume } }
  cloud_init_trigger = proxmox_snippet.web.sha256
}
`
}

// snippetOn is the content of the snippet of a node, "" if it does not exist.
func snippetOn(w *rig.World, node string) (text string) {
	w.Change(func(world *state.World) {
		if v := world.Volume(node, "local:snippets/web.yaml"); v != nil {
			text = v.Data
		}
	})
	return text
}

func putSnippet(w *rig.World, text string) {
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local", Node: "pve2", Name: "snippets/web.yaml", Content: "snippets", Format: "snippet",
			Size: int64(len(text)), Data: text})
	})
}

// TestSnippet: a snippet is written and stands in a VM of the same apply; a change writes it again, makes the drive of the running
// VM again and does not restart it; both go together.
func TestSnippet(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenSSH, snippetWithVM("#cloud-config\nhostname: one\n"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := snippetOn(w, "pve2"); got != "#cloud-config\nhostname: one\n" || snippetOn(w, "pve1") != "" {
		t.Errorf("the snippet holds %q", got)
	}
	w.Reconfigure(t, s, rig.TokenSSH, snippetWithVM("#cloud-config\nhostname: two\n"))
	plan, err := s.Plan(t.Context())
	if err != nil || !strings.Contains(plan.String(), "update proxmox_snippet.web") || !strings.Contains(plan.String(), "update proxmox_vm.web") {
		t.Fatalf("planned %v, %v", plan, err)
	}
	w.ResetCalls()
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := snippetOn(w, "pve2"); got != "#cloud-config\nhostname: two\n" {
		t.Errorf("the snippet holds %q", got)
	}
	renamed, regenerated := 0, 0
	for n, op := range w.Sim.Ops() {
		switch {
		case op.Path == "sftp posix-rename":
			renamed = n + 1
		case op.Method == http.MethodPut && strings.HasSuffix(op.Path, "/cloudinit"):
			regenerated = n + 1
		case strings.HasSuffix(op.Path, "/status/reboot") || strings.HasSuffix(op.Path, "/status/shutdown"):
			t.Errorf("the VM is restarted: %s", op.Path)
		}
	}
	if renamed == 0 || regenerated < renamed {
		t.Errorf("written at %d, the drive was made again at %d", renamed, regenerated)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestSnippetOfAnother: another file of the name is not touched; the same stays when the resource goes; a change by a third party is
// shown, written over only after that, and never removed.
func TestSnippetOfAnother(t *testing.T) {
	t.Parallel()
	const ours = "#cloud-config\nhostname: one\n"
	w := rig.NewWorld(t)
	putSnippet(w, "theirs")
	w.Mark()
	s := w.Session(t, rig.TokenSSH, rig.SnippetBlock(ours))
	_, err := s.Plan(t.Context())
	rig.MustSay(t, err, "There is local:snippets/web.yaml on node pve2 already", "It was not touched", "terraform import")
	w.MustBeClean(t)

	putSnippet(w, ours)
	w.Mark()
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "The snippet stays: local:snippets/web.yaml") {
		t.Errorf("%v, %v", err, s.Diagnostics())
	}
	w.MustBeClean(t)

	w.Change(func(world *state.World) { world.RemoveNodeFile("pve2", "/var/lib/vz/snippets/web.yaml") })
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	putSnippet(w, "changed")
	w.Mark()
	rig.MustSay(t, s.Destroy(t.Context()), "A third party has changed the snippet", "It was not touched")
	w.MustBeClean(t)
	plan, err := s.Plan(t.Context())
	if err != nil || !strings.Contains(plan.String(), "update proxmox_snippet.web") || !strings.Contains(plan.String(), "changed") {
		t.Errorf("planned %v, %v", plan, err)
	}
	putSnippet(w, "changed again") // between plan and apply
	rig.MustSay(t, s.Apply(t.Context(), plan), "The snippet is not what the plan has shown")
	if got := snippetOn(w, "pve2"); got != "changed again" {
		t.Errorf("the snippet holds %q", got)
	}
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := rig.SnippetsLeft(w); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSnippetOfAnotherIsNotChanged: a resource that has found its very snippet on the storage does not know its author. Another
// configuration's VMs may get it, so a change of the content is refused, until the file has the new content or is imported.
func TestSnippetOfAnotherIsNotChanged(t *testing.T) {
	t.Parallel()
	const theirs, ours = "#cloud-config\nhostname: one\n", "#cloud-config\nhostname: two\n"
	w := rig.NewWorld(t)
	putSnippet(w, theirs)
	s := w.Session(t, rig.TokenSSH, rig.SnippetBlock(theirs))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Reconfigure(t, s, rig.TokenSSH, rig.SnippetBlock(ours))
	plan, err := s.Plan(t.Context())
	if err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "The apply will refuse it") {
		t.Errorf("planned %v, %v, %v", plan, err, s.Diagnostics())
	}
	w.Mark()
	rig.MustSay(t, s.Apply(t.Context(), plan), "was there before this resource", "It was not touched", "terraform import")
	w.MustBeClean(t)
	if got := snippetOn(w, "pve2"); got != theirs {
		t.Errorf("the snippet of another holds %q", got)
	}

	putSnippet(w, ours) // its owner changes it likewise
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := snippetOn(w, "pve2"); got != ours {
		t.Errorf("after the destroy the snippet of another holds %q", got)
	}
}

// TestSnippetInUse: one that a guest uses, now, pending, in a snapshot or as a hook script, is not removed; nor by an identity that does
// not see all guests.
func TestSnippetInUse(t *testing.T) {
	t.Parallel()
	const volume = "local:snippets/web.yaml"
	for what, c := range map[string]struct {
		use   func(world *state.World)
		words []string
	}{
		"cicustom": {func(world *state.World) {
			world.Guests[8000].Config["cicustom"] = "meta=local:snippets/user.yaml,user=" + volume
		},
			[]string{volume, "VM 8000", "cicustom"}},
		"snapshot": {func(world *state.World) {
			world.Guests[8000].Snaps = map[string]map[string]string{"old": {"cicustom": "vendor=" + volume, "snaptime": "1"}}
		}, []string{volume, "VM 8000", "snapshot old"}},
		"hook script of a container": {func(world *state.World) { world.Guests[8100].Config["hookscript"] = volume },
			[]string{volume, "container 8100", "hookscript"}},
		"not to be seen": {func(world *state.World) {
			world.Roles["TerraformProvider"] = rig.Except(world.Roles["TerraformProvider"], "VM.Audit")
		}, []string{volume, "VM.Audit on /vms"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) { world.Guests[8000].Node, world.Guests[8100].Node = "pve2", "pve2" })
			s := w.Session(t, rig.TokenSSH, rig.SnippetBlock("#cloud-config\n"))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Change(c.use)
			w.Mark()
			rig.MustSay(t, s.Destroy(t.Context()), c.words...)
			if len(s.Addresses()) != 1 {
				t.Error("the snippet is not in state any more")
			}
			w.MustBeClean(t)
		})
	}
}

// TestSnippetRefusals: the plan reports each error that it can know, and nothing is written.
func TestSnippetRefusals(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		who    rig.Identity
		config string
		world  func(world *state.World)
		words  []string
	}{
		"no SSH":           {who: rig.TokenNoSSH, words: []string{"A snippet takes SSH", "proxmox_cloud_init_iso"}},
		"no such node":     {config: strings.ReplaceAll(rig.SnippetBlock("x"), "pve2", "pve7"), words: []string{"pve7"}},
		"another storage":  {config: strings.ReplaceAll(rig.SnippetBlock("x"), `"local"`, `"local2"`), words: []string{"not for snippets", "pvesm set local2"}},
		"away":             {world: func(world *state.World) { world.Storages["local"].Offline = true }, words: []string{"is not available on node pve2"}},
		"no YAML":          {config: rig.SnippetBlock("#cloud-config\na: [\n", `kind = "user-data"`), words: []string{"The snippet is no user-data", "no YAML"}},
		"no script":        {config: rig.SnippetBlock("echo", `kind = "hookscript"`), words: []string{"does not begin with #!"}},
		"a path as a name": {config: strings.ReplaceAll(rig.SnippetBlock("x"), "web.yaml", "../web.yaml"), words: []string{"must begin with a letter or a digit"}},
		"a hidden name":    {config: strings.ReplaceAll(rig.SnippetBlock("x"), "web.yaml", ".web"), words: []string{"must begin with a letter or a digit"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			if c.world != nil {
				w.Change(c.world)
			}
			w.Mark()
			if c.who == "" {
				c.who = rig.TokenSSH
			}
			if c.config == "" {
				c.config = rig.SnippetBlock("x")
			}
			_, err := w.Session(t, c.who, c.config).Plan(t.Context())
			rig.MustSay(t, err, c.words...)
			w.MustBeClean(t)
		})
	}
}

// TestSnippetFaults meets each operation of a create, a change and a destroy with each fault, a cut connection and a full disk among
// them: each leftover is in state or named, the file is never half written, and a last destroy removes everything.
func TestSnippetFaults(t *testing.T) {
	t.Parallel()
	for _, phase := range []fault.Phase{fault.Before, fault.After} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			for n := 1; snippetFault(t, phase, n); n += share.Of(2) {
				if n > 100 {
					t.Fatal("it does not end")
				}
			}
		})
	}
}

// TestSnippetThatMayBeThereGetsNoCommand: from some operation of a create on the node cannot be reached, so neither the snippet nor its
// removal is certain. A third party may put a file of its own there: no command that would remove it is printed.
func TestSnippetThatMayBeThereGetsNoCommand(t *testing.T) {
	t.Parallel()
	named := 0
	for n := 1; n < 20; n++ {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenSSH, rig.SnippetBlock("#cloud-config\nhostname: one\n"))
		w.Sim.ResetOps()
		rules := []fault.Rule{{Match: fault.Match{Seq: n}, Phase: fault.After}}
		for later := range 40 {
			rules = append(rules, fault.Rule{Match: fault.Match{Seq: n + 1 + later}, Phase: fault.Before, Status: 595})
		}
		w.Sim.SetFaults(rules)
		said := fmt.Sprint(s.Converge(t.Context()), s.Diagnostics())
		w.Sim.SetFaults(nil)
		if !strings.Contains(said, "may have been written") {
			continue
		}
		named++
		if commands := engine.Printed.FindAllString(said, -1); len(commands) > 0 {
			t.Errorf("operation %d: %q", n, commands)
		}
	}
	if named == 0 {
		t.Error("no snippet may have been left")
	}
}

// snippetFault meets the n-th operation with a fault, and goes on from where that was; false: there are not so many.
func snippetFault(t *testing.T, phase fault.Phase, n int) bool {
	t.Helper()
	const one, two = "#cloud-config\nhostname: one\n", "#cloud-config\nhostname: two\n"
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenSSH, rig.SnippetBlock(one))
	w.Sim.ResetOps()
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Seq: n}, Phase: phase, Reason: "No space left on device"}})
	where, err := fmt.Sprintf("%s at %d", phase, n), error(nil)
	isHit := func() bool { return w.Sim.LastOp() >= n }
	for _, step := range []func() error{
		func() error { return s.Converge(t.Context()) },
		func() error {
			w.Reconfigure(t, s, rig.TokenSSH, rig.SnippetBlock(two))
			return s.Converge(t.Context())
		},
		func() error { return s.Destroy(t.Context()) },
	} {
		if isHit() {
			break
		}
		err = step()
		if text := snippetOn(w, "pve2"); text != "" && text != one && text != two {
			t.Errorf("%s: the snippet holds %q", where, text)
		}
		left, said := rig.SnippetsLeft(w), fmt.Sprint(err, s.Diagnostics())
		if len(left) > 0 && len(s.Addresses()) == 0 && !strings.Contains(said, "web.yaml") {
			t.Errorf("%s: %v is left, neither in state nor named: %v", where, left, said)
		}
	}
	hit := isHit()
	w.Sim.SetFaults(nil)
	if next := s.Converge(t.Context()); next != nil {
		t.Errorf("%s: %v; the next apply: %v", where, err, next)
	}
	if next := s.Destroy(t.Context()); next != nil {
		t.Errorf("%s: %v; the next destroy: %v", where, err, next)
	}
	if left := rig.SnippetsLeft(w); len(left) > 0 {
		t.Errorf("%s: %v; left: %v, %v", where, err, left, s.Diagnostics())
	}
	if !hit && n < 20 {
		t.Errorf("only %d operations", n)
	}
	return hit
}

// TestSnippetOfTwoProcesses: two providers that want the same file at the same time get it whole, and one of them alone counts as its
// maker; the other's goes without it. Of two that want different content under one name one is refused.
func TestSnippetOfTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		for range 5 {
			w := rig.NewWorld(t)
			texts := []string{"#cloud-config\nhostname: one\n", "#cloud-config\nhostname: two\n"}
			if same {
				texts[1] = texts[0]
			}
			var sessions [2]*terraformtest.Session
			var errs [2]error
			var both sync.WaitGroup
			for i := range sessions {
				sessions[i] = w.Session(t, rig.TokenSSH, rig.SnippetBlock(texts[i]))
			}
			for i, s := range sessions {
				both.Go(func() { errs[i] = s.Converge(t.Context()) })
			}
			both.Wait()
			made := 0
			for i, err := range errs {
				if err == nil {
					made++
					if got := snippetOn(w, "pve2"); got != texts[i] {
						t.Errorf("it holds %q, and %q was written", got, texts[i])
					}
				}
			}
			if made == 0 || !same && made == 2 {
				t.Errorf("same=%t: %d of two were made: %v", same, made, errs)
			}
			for _, s := range sessions {
				if err := s.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if left := rig.SnippetsLeft(w); len(left) > 0 {
				t.Errorf("same=%t: left: %v", same, left)
			}
		}
	}
}

// TestSnippetImport: a file is adopted as it is, and goes with its resource then.
func TestSnippetImport(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	putSnippet(w, "#cloud-config\n")
	s := w.Session(t, rig.TokenSSH, rig.SnippetBlock("#cloud-config\n"))
	if err := s.Import(t.Context(), "proxmox_snippet.web", "pve2/local:snippets/web.yaml"); err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan(t.Context())
	if err != nil || !plan.Empty() {
		t.Errorf("planned %v, %v", plan, err)
	}
	if got := terraformtest.ShowValue(s.Attr("proxmox_snippet.web", "volume")); got != `"local:snippets/web.yaml"` {
		t.Errorf("the volume is %s", got)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := rig.SnippetsLeft(w); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSnippetOnAnUnavailableStorage: a snippet stays in state while its storage is unavailable.
func TestSnippetOnAnUnavailableStorage(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenSSH, rig.SnippetBlock("#cloud-config\n"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) { world.Storages["local"].Offline = true })
	plan, err := s.Plan(t.Context())
	if err != nil || !plan.Empty() || !strings.Contains(fmt.Sprint(s.Diagnostics()), "was not refreshed") {
		t.Errorf("planned %v, %v, %v", plan, err, s.Diagnostics())
	}
	rig.MustSay(t, s.Destroy(t.Context()), "is not available on node pve2")
	if len(s.Addresses()) != 1 {
		t.Error("the snippet is not in state any more")
	}
}

// TestSnippetWithImage is a configuration that takes another provider where there are VMs alone: an image, a snippet, and a VM of both.
func TestSnippetWithImage(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("cloud image")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data})
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenSSH, strings.ReplaceAll(rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(data)), "pve1", "pve2")+
		strings.Replace(snippetWithVM("#cloud-config\nhostname: one\n"), "vmid = 300", "vmid = 300\n  disks = { scsi0 = { storage = \"local-zfs\", "+
			"size = \"2G\", import_from = proxmox_image.disk.volume } }", 1))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := terraformtest.ShowValue(s.Attr("proxmox_vm.web", "status")); status != `"running"` {
		t.Errorf("the VM is %s", status)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestSnippetReference applies the configuration of the reference, and destroys it.
func TestSnippetReference(t *testing.T) {
	t.Parallel()
	config := ""
	page, err := os.ReadFile("../../../templates/resources/snippet.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```terraform\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		config += block[1]
	}
	if !strings.Contains(config, "cloud_init_trigger") {
		t.Fatalf("the page has %q", config)
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenSSH, config)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}
