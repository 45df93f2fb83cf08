package server

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func mustQuery(t *testing.T, text string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// step is a request and what is to come of it.
type step struct {
	as, method, path, params string
	want                     string // exit status of the task, else the reason phrase
}

func (g *rig) steps(steps []step) {
	g.t.Helper()
	for _, s := range steps {
		as := s.as
		if as == "" {
			as = "root@pam!tf"
		}
		path, params, _ := strings.Cut(s.path, "?")
		if params == "" {
			params = s.params
		}
		r := g.do(as, s.method, "/nodes/pve1"+path, params)
		got := r.reason
		if upid, ok := r.body.Data.(string); ok && strings.HasPrefix(upid, "UPID:") {
			g.s.Do(func(w *state.World) { got = w.Tasks[upid].ExitStatus })
		}
		for k, v := range r.body.Errors {
			got = k + ": " + strings.TrimSpace(v)
		}
		if got != s.want {
			g.t.Errorf("%s %s %s: %q, want %q", s.method, s.path, s.params, got, s.want)
		}
		g.check()
	}
}

func (g *rig) config(id string) map[string]any {
	g.t.Helper()
	return g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/"+id+"/config", "").object(g.t)
}

func TestMigrate(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&ide2=local-lvm:cloudinit", "OK"},
		{"", "POST", "/qemu/100/migrate", "target=pve1", "target: target is local node."},
		{"", "POST", "/qemu/100/migrate", "target=pve9", "no such cluster node 'pve9'"},
		{"", "POST", "/qemu/100/migrate", "target=pve2", "OK"},
		{"", "GET", "/qemu/100/config", "", "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist"},
	})
	if len(g.names(100)) != 0 {
		t.Errorf("left on the source: %v", g.names(100))
	}
	r := g.do("root@pam!tf", "GET", "/nodes/pve2/qemu/100/config", "")
	if c := r.object(t); c["scsi0"] != "local-zfs:vm-100-disk-0,size=1G" || c["lock"] != nil {
		t.Error(c)
	}
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=101&scsi0=local-zfs:1&start=1", "OK"},
		{"", "POST", "/qemu/101/migrate", "target=pve2", "can't migrate running VM without --online"},
		{"", "POST", "/qemu/101/migrate", "target=pve2&online=1", "migration aborted"},
		{"", "POST", "/qemu/101/migrate", "target=pve2&online=1&with-local-disks=1&targetstorage=local2", "OK"},
	})
	if c := g.do("root@pam!tf", "GET", "/nodes/pve2/qemu/101/status/current", "").object(t); c["status"] != "running" {
		t.Error(c)
	}
}

func TestLinkedClones(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu/9000/clone", "newid=100&name=web", "OK"},
		{"", "POST", "/qemu/9000/clone", "newid=101&storage=local2", "parameter 'storage' not allowed for linked clones"},
		{"", "POST", "/qemu/9000/clone", "newid=101&full=1&storage=local2&format=qcow2", "OK"},
		{"", "POST", "/qemu/9000/clone", "newid=8100",
			"close (rename) atomic file '/etc/pve/nodes/pve1/qemu-server/8100.conf' failed: File exists"},
		{"", "POST", "/qemu/9000/clone", "newid=102&target=pve2", "can't clone VM to node 'pve2' (VM uses local storage)"},
		{"", "DELETE", "/qemu/100", "", "can't remove VM 100 - protection mode enabled"},
		{"", "PUT", "/qemu/100/config", "protection=0", "OK"},
		{"", "PUT", "/qemu/9000/config", "protection=0", "OK"},
		{"", "DELETE", "/qemu/9000", "", "base volume 'local-zfs:base-9000-disk-0' is still in use by linked cloned"},
		{"", "DELETE", "/storage/local-zfs/content/local-zfs:base-9000-disk-0", "",
			"base volume 'base-9000-disk-0' is still in use by linked clones"},
		{"", "DELETE", "/qemu/100", "", "OK"},
		{"", "DELETE", "/qemu/9000", "", "OK"},
	})
	want := []string{"local2:101/vm-101-cloudinit.qcow2", "local2:101/vm-101-disk-0.qcow2"}
	if got := g.names(101); !cmp.Equal(want, got) {
		t.Errorf("the full clone's volumes: %v", got)
	}
	if c := g.config("101"); c["name"] != "Copy-of-VM-template" || c["onboot"] != 1.0 || c["template"] != nil {
		t.Error(c)
	}
}

func TestFreeWithoutAllocate(t *testing.T) {
	const lite = "lite@pve!prov"
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		orphan(w, "local-zfs", "vm-700-disk-0", 700, 1<<30)
		orphan(w, "local-zfs", "vm-700-cloudinit", 700, 4<<20)
	})
	list := g.do(lite, "GET", "/nodes/pve1/storage/local-zfs/content", "vmid=700").list()
	if len(list) != 2 {
		t.Errorf("it must see orphans: %v", list)
	}
	g.steps([]step{
		{lite, "DELETE", "/storage/local-zfs/content/local-zfs:vm-700-disk-0", "",
			"Permission check failed (/storage/local-zfs, Datastore.Allocate)"},
		{lite, "POST", "/qemu", "vmid=700&name=a", "OK"},
		{lite, "PUT", "/qemu/700/config", "unused0=local-zfs:vm-700-disk-0&unused1=local-zfs:vm-700-cloudinit", "OK"},
		{lite, "PUT", "/qemu/700/config", "delete=unused0,unused1", "OK"},
		{lite, "DELETE", "/qemu/700", "", "OK"},
	})
	if len(g.names(700)) != 0 {
		t.Error(g.names(700))
	}
}

func TestPoolsAndFirewallGoWithTheGuest(t *testing.T) {
	g := newRig(t, nil)
	before := string(g.s.Snapshot())
	g.steps([]step{
		{"terraform@pve!prov", "POST", "/qemu", "vmid=100&pool=web&scsi0=local-zfs:1", "OK"},
		{"", "PUT", "/qemu/100/firewall/options", "enable=1", "OK"},
		{"", "POST", "/qemu/100/firewall/rules", "type=in&action=ACCEPT&enable=1", "OK"},
		{"", "DELETE", "/qemu/100", "", "OK"},
	})
	if diff := cmp.Diff(before, string(g.s.Snapshot())); diff != "" {
		t.Error(diff)
	}
}

func TestStorageTroubles(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&scsi1=local-lvm:1", "OK"}})
	g.s.Do(func(w *state.World) { w.Storages["local-zfs"].Offline = true })
	g.steps([]step{
		{"", "GET", "/storage/local-zfs/content", "", "storage 'local-zfs' is not online"},
		{"", "POST", "/qemu", "vmid=101&scsi0=local-lvm:1&scsi1=local-zfs:1",
			"unable to create VM 101 - storage 'local-zfs' is not online"},
		{"", "DELETE", "/qemu/100", "", "OK"}, // the free fails unheard
	})
	if got := g.names(100); !slices.Equal(got, []string{"local-zfs:vm-100-disk-0"}) {
		t.Errorf("orphans: %v", got)
	}
	if got := g.names(101); len(got) != 0 {
		t.Errorf("left by a failed create: %v", got)
	}
}

func TestSuspendAndPower(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&agent=1&net0=virtio,bridge%3Dvmbr0", "OK"},
		{"", "POST", "/qemu/100/status/start", "", "OK"},
		{"", "PUT", "/qemu/100/config", "cores=4", "OK"},
		{"", "POST", "/qemu/100/status/suspend", "", "OK"},
		{"", "POST", "/qemu/100/status/shutdown", "", "VM is paused - cannot shutdown"},
		{"", "POST", "/qemu/100/status/resume", "", "OK"},
		{"", "GET", "/qemu/100/agent/network-get-interfaces", "", "OK"},
		{"", "POST", "/qemu/100/status/reboot", "", "OK"},
	})
	g.pass(power.RebootGap)
	g.steps([]step{
		{"", "GET", "/qemu/100/pending", "", "OK"},
		{"", "POST", "/qemu/100/status/suspend", "todisk=1", "OK"},
		{"", "PUT", "/qemu/100/config", "cores=2", "VM is locked (suspended)"},
		{"", "POST", "/qemu/100/status/start", "", "OK"},
		{"", "POST", "/qemu/100/status/stop", "", "OK"},
	})
	if c := g.config("100"); c["cores"] != 4.0 || c["lock"] != nil || c["vmstate"] != nil {
		t.Error(c)
	}
	if len(g.names(100)) != 1 {
		t.Error(g.names(100))
	}
}

func TestProtectedDrives(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&scsi1=local-zfs:1&protection=1", "OK"},
		{"", "PUT", "/qemu/100/config", "delete=scsi1", "can't remove drive 'scsi1' - protection mode enabled"},
		{"", "PUT", "/qemu/100/config", "protection=0", "OK"},
		{"lite@pve!prov", "PUT", "/qemu/100/config", "delete=scsi1&force=1", "OK"},
		{"", "POST", "/qemu/100/snapshot", "snapname=one", "OK"},
		{"", "PUT", "/qemu/100/config", "delete=scsi0", "OK"},
		{"", "PUT", "/qemu/100/config", "delete=unused0",
			"unable to delete 'local-zfs:vm-100-disk-0' - volume is still in use (snapshot?)"},
		{"", "POST", "/qemu/100/snapshot/one/rollback", "", "OK"},
		{"", "DELETE", "/qemu/100/snapshot/one", "", "OK"},
		{"", "DELETE", "/qemu/100", "", "OK"},
	})
	if len(g.names(100)) != 0 {
		t.Error(g.names(100))
	}
}

// TestHookScriptMustBeExecutable: PVE takes no other, and starts no guest whose script is not executable any more.
func TestHookScriptMustBeExecutable(t *testing.T) {
	g := newRig(t, nil)
	mode := func(mode state.Mode) {
		g.s.Do(func(w *state.World) { w.Volume("pve1", "local:snippets/user.yaml").Mode = mode })
	}
	const script = "hookscript=local:snippets/user.yaml"
	mode(0o600)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100", "OK"},
		{"", "PUT", "/qemu/100/config", script, "hookscript: script 'local:snippets/user.yaml' is not executable"},
	})
	mode(0o700)
	g.steps([]step{{"root", "PUT", "/qemu/100/config", script, "OK"}})
	mode(0o600)
	g.steps([]step{{"", "POST", "/qemu/100/status/start", "",
		"hookscript error for 100 on pre-start: script 'local:snippets/user.yaml' is not executable"}})
	mode(0o711)
	g.steps([]step{{"", "POST", "/qemu/100/status/start", "", "OK"}})
}
