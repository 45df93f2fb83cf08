package server

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestConsoles: each console has its ticket and its port, and a task that waits for a client.
func TestConsoles(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&vga=qxl", "OK"},
		{"", "POST", "/qemu/100/spiceproxy", "", "VM 100 not running"},
		{"", "POST", "/qemu/100/status/start", "", "OK"},
		{"", "POST", "/qemu/999/vncproxy", "", "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"},
		{"", "POST", "/qemu/8000/spiceproxy", "", "VM 8000 not running"},
	})
	for _, c := range []struct{ route, keys string }{
		{"vncproxy", "cert password port ticket upid user"}, {"termproxy", "port ticket upid user"},
		{"spiceproxy", "ca host password proxy tls-port type"},
	} {
		data := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu/100/"+c.route, "").object(t)
		for _, key := range strings.Fields(c.keys) {
			if data[key] == nil || data[key] == "" {
				t.Errorf("%s has no %s: %v", c.route, key, data)
			}
		}
	}
	g.s.Do(func(w *state.World) { w.Nodes["pve1"].Lacks = []string{"termproxy"} })
	if r := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu/100/termproxy", ""); !strings.HasPrefix(r.reason, "Timeout while waiting for port") {
		t.Errorf("without its program: %d %s", r.status, r.reason)
	}
	for command, want := range map[string]string{"info status": "VM status: running\r\n", "info none": "unknown command: 'info none'\r\n"} {
		if r := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu/100/monitor", "command="+command); r.body.Data != want {
			t.Errorf("%s: %v", command, r.body.Data)
		}
	}
}

// TestGroupsOfUsers: a group gives its roles to its members, and is gone from both when it goes.
func TestGroupsOfUsers(t *testing.T) {
	g := newRig(t, nil)
	ask := func(method, path, params, want string) {
		t.Helper()
		if r := g.do("root", method, path, params); r.reason != want {
			t.Errorf("%s %s %s: %q, want %q", method, path, params, r.reason, want)
		}
	}
	ask("POST", "/access/groups", "groupid=admins&comment=c", "OK")
	ask("POST", "/access/groups", "groupid=admins", "create group failed: group 'admins' already exists")
	ask("PUT", "/access/users/auditor@pve", "groups=none", "update user failed: no such group 'none'")
	ask("PUT", "/access/users/auditor@pve", "groups=admins", "OK")
	ask("PUT", "/access/acl", "path=/vms&groups=admins&roles=PVEVMAdmin", "OK")
	may := func() (yes bool) {
		r := g.do("root", "GET", "/access/permissions", "userid=auditor@pve&path=/vms").object(t)
		of, _ := r["/vms"].(map[string]any)
		return of["VM.Allocate"] != nil
	}
	if !may() {
		t.Error("a member has not the rights of its group")
	}
	if data := g.do("root", "GET", "/access/groups/admins", "").object(t); data["comment"] != "c" || len(data["members"].([]any)) != 1 {
		t.Errorf("the group: %v", data)
	}
	ask("DELETE", "/access/groups/admins", "", "OK")
	if may() {
		t.Error("the rights outlive the group")
	}
	g.s.Do(func(w *state.World) {
		if u := w.Users["auditor@pve"]; len(u.Groups) != 0 {
			t.Errorf("the user is in %v", u.Groups)
		}
	})
}

// TestTagPolicy: user-tag-access and registered-tags bind those without Sys.Modify on /.
func TestTagPolicy(t *testing.T) {
	const refused = "'Sys.Modify' required on '/' for modifying tag '"
	g := newRig(t, func(c *engine.Config) {
		c.World.Roles["Tagger"] = []string{"VM.Allocate", "VM.Audit", "VM.Config.Options"}
		c.World.Tokens["root@pam!tag"] = &state.Token{ID: "root@pam!tag", Secret: "s", Separated: true}
		c.World.ACL = append(c.World.ACL, state.ACLEntry{Path: "/", Subject: "root@pam!tag", Role: "Tagger", Propagate: true})
	})
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&tags=old", "OK"}, {"", "POST", "/qemu", "vmid=101&tags=other", "OK"}})
	for _, c := range []struct{ policy, tags, want string }{
		{"", "old;new", "OK"},
		{"user-tag-access=user-allow%3Dnone", "old", refused + "new'"},
		{"user-tag-access=user-allow%3Dnone", "old;new", "OK"},
		{"user-tag-access=user-allow%3Dexisting", "old;new;other", "OK"},
		{"user-tag-access=user-allow%3Dexisting", "old;new;other;third", refused + "third'"},
		{"user-tag-access=user-allow%3Dlist,user-allow-list%3Dthird", "old;new;other;third", "OK"},
		{"registered-tags=prod&delete=user-tag-access", "old;prod", refused + "prod'"},
	} {
		if r := g.do("root", "PUT", "/cluster/options", c.policy); c.policy != "" && r.status != 200 {
			t.Fatalf("%s: %d %s %v", c.policy, r.status, r.reason, r.body.Errors)
		}
		if r := g.do("root@pam!tag", "PUT", "/nodes/pve1/qemu/100/config", "tags="+strings.ReplaceAll(c.tags, ";", "%3B")); r.reason != c.want {
			t.Errorf("%s: tags %s: %q, want %q", c.policy, c.tags, r.reason, c.want)
		}
	}
}

// TestMappingsAreWritten: a mapping is made, read with its lines, changed and removed; a second one of its name is refused.
func TestMappingsAreWritten(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct{ method, path, params, want string }{
		{"POST", "", "id=gpu&map=id%3D10de:1eb8,node%3Dpve1,path%3D0000:01:00.0", "OK"},
		{"POST", "", "id=gpu&map=id%3D10de:1eb8,node%3Dpve1,path%3D0000:01:00.0",
			"create hardware mapping failed: pci ID 'gpu' already defined"},
		{"PUT", "/gpu", "map=id%3D10de:1eb8,node%3Dpve2,path%3D0000:01:00.0&description=d&mdev=1", "OK"},
		{"PUT", "/none", "map=id%3D10de:1eb8,node%3Dpve2,path%3D0000:01:00.0",
			"update hardware mapping failed: pci ID 'none' does not exist"},
		{"GET", "/none", "", "mapping 'none' not found"},
	} {
		if r := g.do("root@pam!tf", c.method, "/cluster/mapping/pci"+c.path, c.params); r.reason != c.want {
			t.Errorf("%s %s: %q %v, want %q", c.method, c.path, r.reason, r.body.Errors, c.want)
		}
	}
	data := g.do("root@pam!tf", "GET", "/cluster/mapping/pci/gpu", "").object(t)
	lines, _ := data["map"].([]any)
	if len(lines) != 1 || !strings.Contains(lines[0].(string), "node=pve2") || data["description"] != "d" {
		t.Errorf("the mapping: %v", data)
	}
	g.do("root@pam!tf", "DELETE", "/cluster/mapping/pci/gpu", "")
	if r := g.do("root@pam!tf", "GET", "/cluster/mapping/pci/gpu", ""); r.status != 500 {
		t.Errorf("after its removal: %d %v", r.status, r.body.Data)
	}
}

// TestBackupsKeepNotes: notes and protection of an archive are kept, and a protected one stays.
func TestBackupsKeepNotes(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&name=web", "OK"},
		{"", "POST", "/vzdump", "vmid=100&storage=local&notes-template=of {{guestname}}&compress=zstd", "OK"},
		{"", "POST", "/vzdump", "vmid=100&storage=local", "OK"},
	})
	list := g.do("root@pam!tf", "GET", "/nodes/pve1/storage/local/content", "content=backup&vmid=100").list()
	if len(list) != 2 {
		t.Fatalf("archives: %v", list)
	}
	formats := map[string]string{}
	for _, row := range list {
		notes, _ := row["notes"].(string)
		formats[row["format"].(string)] = notes
	}
	if formats["vma.zst"] != "of web" || len(formats) != 2 {
		t.Errorf("formats and notes: %v", formats)
	}
	path := "/storage/local/content/" + strings.ReplaceAll(list[0]["volid"].(string), "/", "%2F")
	g.steps([]step{
		{"", "PUT", path, "notes=mine&protected=1", "OK"},
		{"", "PUT", "/storage/local/content/local:iso%2Fnone.iso", "notes=x", "only backups can have notes"},
	})
	if r := g.do("root@pam!tf", "GET", "/nodes/pve1"+path, "").object(t); r["notes"] != "mine" || r["protected"] != 1.0 {
		t.Errorf("the archive: %v", r)
	}
	g.do("root@pam!tf", "DELETE", "/nodes/pve1"+path, "")
	g.do("root@pam!tf", "DELETE", "/nodes/pve1/storage/local/prunebackups", "prune-backups=keep-last%3D1&vmid=100")
	list = g.do("root@pam!tf", "GET", "/nodes/pve1/storage/local/content", "content=backup&vmid=100").list()
	if len(list) != 2 {
		t.Errorf("the protected archive and one more stay: %v", list)
	}
}

// TestRestoreOfNothing: an archive that is not there is refused before anything is made (API2/Qemu.pm, create_vm).
func TestRestoreOfNothing(t *testing.T) {
	g := newRig(t, nil)
	const none = "local:backup/vzdump-qemu-100-2026_01_01-00_00_00.vma"
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&archive=" + none, "volume '" + none + "' does not exist"},
		{"", "POST", "/qemu", "vmid=100&archive=-", "pipe requires cli environment"},
		{"", "GET", "/qemu/100/config", "", "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist"},
	})
}

// TestImportInAFormatThatThereIsNot: the storage's own format takes its place (QemuServer/ImportDisk.pm).
func TestImportInAFormatThatThereIsNot(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/a.qcow2", Content: "import", Format: "qcow2", Size: 1 << 30})
	})
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-lvm:0,import-from%3Dlocal:import/a.qcow2,format%3Dqcow2", "OK"}})
	if got := g.config("100")["scsi0"]; got != "local-lvm:vm-100-disk-0,size=1G" {
		t.Errorf("scsi0: %v", got)
	}
}

// TestStorageOptionsStay: what a storage is configured with is read back, and a directory that is not to be made must exist.
func TestStorageOptionsStay(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct{ method, path, params, want string }{
		{"POST", "", "storage=d1&type=dir&path=/mnt/d1&prune-backups=keep-last%3D3&preallocation=off&create-subdirs=0", "OK"},
		{"POST", "", "storage=d2&type=dir&path=/mnt/d2&create-base-path=0", "create storage failed: unable to activate storage 'd2' - " +
			"directory '/mnt/d2' does not exist or is unreachable"},
		{"PUT", "/d1", "shared=1&preallocation=metadata", "OK"},
	} {
		if r := g.do("root@pam!tf", c.method, "/storage"+c.path, c.params); r.reason != c.want {
			t.Errorf("%s: %q %v, want %q", c.params, r.reason, r.body.Errors, c.want)
		}
	}
	data := g.do("root@pam!tf", "GET", "/storage/d1", "").object(t)
	for k, want := range map[string]any{"prune-backups": "keep-last=3", "preallocation": "metadata", "create-subdirs": 0.0, "shared": 1.0} {
		if data[k] != want {
			t.Errorf("%s: %v, want %v", k, data[k], want)
		}
	}
}

// TestClusterOptions: an option that is deleted is gone, the installer's keyboard as well, and who may not look sees the
// style of tags and the console only.
func TestClusterOptions(t *testing.T) {
	g := newRig(t, nil)
	keys := func(as string) string {
		return strings.Join(slices.Sorted(maps.Keys(g.do(as, "GET", "/cluster/options", "").object(t))), " ")
	}
	if got := keys("root@pam!sep"); got != "allowed-tags" {
		t.Errorf("without a privilege: %s", got)
	}
	g.do("root", "PUT", "/cluster/options", "console=html5&keyboard=de")
	if got := keys("root@pam!sep"); got != "allowed-tags console" {
		t.Errorf("without a privilege: %s", got)
	}
	g.do("root", "PUT", "/cluster/options", "delete=keyboard")
	if got := keys("root"); got != "allowed-tags console description mac_prefix" {
		t.Errorf("after the deletion: %s", got)
	}
}

// TestMigrationCapability: since qemu-server 9.0 a node tells whether it takes the state of conntrack along.
func TestMigrationCapability(t *testing.T) {
	eachProfile(t, func(t *testing.T, profile string, g *rig) {
		r := g.do("root", "GET", "/nodes/pve1/capabilities/qemu/migration", "")
		if has := strings.Contains(r.text, `{"has-dbus-vmstate":true}`); has != (profile >= "9") {
			t.Errorf("%d %s", r.status, r.text)
		}
	})
}

// TestSecondNameOfADirectory: two storages of one directory show the same volumes, which outlive either entry.
func TestSecondNameOfADirectory(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/storage/local/content", "vmid=7700&filename=vm-7700-disk-0.raw&size=1G", "OK"}})
	volids := func(storage string) string {
		var list []string
		for _, row := range g.do("root", "GET", "/nodes/pve1/storage/"+storage+"/content", "vmid=7700&content=images").list() {
			list = append(list, row["volid"].(string))
		}
		return strings.Join(list, " ")
	}
	for _, id := range []string{"second", "third"} {
		if r := g.do("root", "POST", "/storage", "storage="+id+"&type=dir&content=images&path=/var/lib/vz/"); r.status != 200 {
			t.Fatalf("%s: %s", id, r.reason)
		}
	}
	if got := volids("local") + ", " + volids("third"); got != "local:7700/vm-7700-disk-0.raw, third:7700/vm-7700-disk-0.raw" {
		t.Errorf("by both names: %s", got)
	}
	g.do("root", "DELETE", "/storage/third", "")
	g.do("root", "DELETE", "/storage/local", "")
	if got := volids("second"); got != "second:7700/vm-7700-disk-0.raw" {
		t.Errorf("after the removal of the first: %s", got)
	}
}

// TestSnapshotsOnBtrfs: there raw images have snapshots, too (BTRFSPlugin.pm).
func TestSnapshotsOnBtrfs(t *testing.T) {
	g := newRig(t, func(c *engine.Config) {
		c.World.Storages["fast"] = &state.Storage{ID: "fast", Type: "btrfs", Path: "/mnt/fast", Total: 1 << 40, Content: []string{"images"}}
	})
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&scsi0=fast:1", "OK"},
		{"", "POST", "/qemu/100/snapshot", "snapname=one", "OK"},
		{"", "POST", "/qemu/100/snapshot/one/rollback", "", "OK"},
		{"", "DELETE", "/qemu/100/snapshot/one", "", "OK"},
	})
}

// TestCloudinitPendsWhileRunning: a running guest's image is older than its options, until it is made again.
func TestCloudinitPendsWhileRunning(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&ide2=local-lvm:cloudinit&ciuser=a&citype=nocloud&start=1", "OK"},
		{"", "PUT", "/qemu/100/config", "ciuser=b&nameserver=10.0.0.1&delete=citype", "OK"},
	})
	rows := func() map[string]map[string]any {
		of := map[string]map[string]any{}
		for _, row := range g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/cloudinit", "").list() {
			of[row["key"].(string)] = row
		}
		return of
	}
	got := rows()
	if got["ciuser"]["value"] != "a" || got["ciuser"]["pending"] != "b" || got["nameserver"]["pending"] != "10.0.0.1" ||
		got["nameserver"]["value"] != nil || got["citype"]["delete"] != 1.0 {
		t.Errorf("before: %v", got)
	}
	g.steps([]step{{"", "PUT", "/qemu/100/cloudinit", "", "OK"}})
	if got := rows(); got["ciuser"]["value"] != "b" || got["ciuser"]["pending"] != nil || got["citype"] != nil {
		t.Errorf("after: %v", got)
	}
}
