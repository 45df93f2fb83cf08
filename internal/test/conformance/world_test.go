package conformance_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// conformanceStart is when the simulated recording begins.
func conformanceStart() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

// conformanceRoles name the simulated things that the tables call by their role.
func conformanceRoles() map[string]string {
	return map[string]string{
		"{dir}": "local", "{dir2}": "local2", "{dir3}": "nosnip", "{zfs}": "local-zfs", "{lvmthin}": "local-lvm", "{lvm}": "lvm-thick",
		"{btrfs}": "local-btrfs", "{disabled}": "disabled1", "{node}": "pve1", "{bridge}": "vmbr0",
		"{dir.path}": "/var/lib/vz", "{dir2.path}": "/var/lib/vz2", "{dir3.path}": "/var/lib/vz3", "{disabled.path}": "/var/lib/vz4",
		"{zfs.pool}": "rpool/data", "{token}": "root@pam!tf", "{tokenid}": "tf",
	}
}

// conformanceWorld is the server of the recordings before the first request.
func conformanceWorld() *state.World {
	w := state.Default([]string{"pve1"})
	clear(w.Guests)
	clear(w.Volumes)
	clear(w.Pools)
	clear(w.SecurityGroups)
	w.Pools["testpool"] = &state.Pool{ID: "testpool", Comment: "pool for tests", Guests: []int{}}
	w.Nodes["pve1"].Bridges = []string{"vmbr0", "vmbr1"}
	w.Nodes["pve1"].CGroupV1, w.Nodes["pve1"].Lacks = true, []string{"sendmail"}
	w.Nodes["pve1"].Resolver = &state.Resolver{Servers: []string{"192.0.2.1"}}
	conformanceStorages(w)
	conformanceIdentities(w)
	put := func(name, content, format, data string, size int64) {
		w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: name, Content: content, Format: format, Size: size, Data: data})
	}
	put("import/disk.qcow2", "import", "qcow2", "an image", 600<<20)
	put("import/broken.qcow2", "import", "qcow2", "broken", 1<<20)
	put("iso/test.iso", "iso", "iso", "", 1<<20)
	put("snippets/ud.yaml", "snippets", "snippet", "#cloud-config\n", 14)
	return w
}

func conformanceStorages(w *state.World) {
	clear(w.Storages)
	const gib = int64(1) << 30
	dir := func(id, path string, content ...string) *state.Storage {
		return &state.Storage{ID: id, Type: "dir", Path: path, Total: 270553174016, Content: content}
	}
	off := dir("disabled1", "/var/lib/vz4", "images", "iso")
	off.Disabled = true
	for _, s := range []*state.Storage{
		dir("local", "/var/lib/vz", "images", "iso", "snippets", "import", "vztmpl", "backup", "rootdir"),
		dir("local2", "/var/lib/vz2", "images", "iso", "import", "snippets"), dir("nosnip", "/var/lib/vz3", "images"), off,
		{ID: "local-zfs", Type: "zfspool", Path: "rpool/data", Total: 64 * gib, Content: []string{"images", "rootdir"}},
		{ID: "local-lvm", Type: "lvmthin", Path: "pve/data", Total: 48 * gib, Content: []string{"images", "rootdir"}},
		{ID: "lvm-thick", Type: "lvm", Path: "vgthick", Total: 32 * gib, Content: []string{"images", "rootdir"}},
		{ID: "local-btrfs", Type: "btrfs", Path: "/mnt/btrfs/store", Total: 80 * gib, Content: []string{"images", "iso", "import", "rootdir"}},
	} {
		w.Storages[s.ID] = s
	}
}

// conformancePrivilegesOfProvider is the role of the recordings' least-privilege token.
func conformancePrivilegesOfProvider() []string {
	return strings.Fields(`Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit Pool.Allocate Pool.Audit
		SDN.Use Sys.Audit Sys.Console Sys.Modify Sys.PowerMgmt VM.Allocate VM.Audit VM.Clone VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit
		VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options VM.Console VM.Migrate VM.Monitor VM.PowerMgmt
		VM.Snapshot VM.Snapshot.Rollback`)
}

func conformanceIdentities(w *state.World) {
	clear(w.Users)
	clear(w.Tokens)
	w.ACL = nil
	delete(w.Roles, "TerraformProvider")
	delete(w.Roles, "TerraformLite")
	w.Roles["TerraformProv"] = conformancePrivilegesOfProvider()
	for _, id := range []string{"root@pam", "terraform@pve", "tester@pve", "limited@pve", "disabled@pve"} {
		w.Users[id] = &state.User{ID: id, Password: "simulated", Disabled: id == "disabled@pve"}
	}
	w.Users["root@pam"].Email = "root@example.invalid"
	tester := w.Users["tester@pve"]
	tester.Email, tester.FirstName, tester.LastName = "tester@example.invalid", "Test", "Er"
	for id, role := range map[string]string{"terraform@pve": "TerraformProv", "tester@pve": "Administrator", "limited@pve": "PVEAuditor"} {
		w.ACL = append(w.ACL, state.ACLEntry{Path: "/", Subject: id, Role: role, Propagate: true})
	}
	for _, id := range []string{"root@pam!tf", "root@pam!sep", "terraform@pve!prov", "limited@pve!ro"} {
		w.Tokens[id] = &state.Token{ID: id, Secret: w.UUID(), Separated: id == "root@pam!sep"}
	}
}

// newConformer starts a simulated server with a clock that moves by tick whenever it is read, and a client for it.
func newConformer(t *testing.T, world *state.World, tick time.Duration) *conformer {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{World: world, Clock: clock.NewTicking(conformanceStart(), tick), Latency: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	c := newPlainClient(sim.Endpoint(), []byte(sim.CAPEM()), false, sim.DialContext)
	t.Cleanup(c.close)
	c.sim, c.user, c.password = sim, "root@pam", "simulated"
	const noSecret = "00000000-0000-0000-0000-000000000000"
	token := func(id string) string {
		if t := sim.World().Tokens[id]; t != nil {
			return id + "=" + t.Secret
		}
		return id + "=" + noSecret // that server has no such token
	}
	for as, id := range map[string]string{
		"token": "root@pam!tf", "separated": "root@pam!sep", "provider": "terraform@pve!prov", "auditor": "limited@pve!ro",
	} {
		c.secrets[as] = token(id)
	}
	c.secrets["wrong secret"], c.secrets["unknown user"] = "root@pam!tf="+noSecret, "nobody@pve!tf="+noSecret
	c.secrets["unknown token"], c.secrets["malformed token"] = "root@pam!none="+noSecret, "nonsense"
	if err := c.login(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &conformer{client: c, sim: sim, roles: conformanceRoles(), tasks: map[int]string{}}
}

// change alters the simulated world behind the API's back.
func (s *conformer) change(f func(w *state.World)) {
	w := s.sim.World()
	w.Lock()
	defer w.Unlock()
	f(w)
}

// invariant is what is wrong with the simulated world: nothing, on a real one.
func (s *conformer) invariant() []string {
	if s.sim == nil {
		return nil
	}
	w := s.sim.World()
	w.Lock()
	defer w.Unlock()
	if err := w.Check(); err != nil {
		return []string{fmt.Sprintf("world: %v", err)}
	}
	return nil
}

// orphan puts a volume that no guest names.
func orphanVolume(w *state.World, storage, name string, vmid int, size int64) {
	format := "raw"
	if strings.HasSuffix(name, ".qcow2") {
		format = "qcow2"
	}
	w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, Content: "images", VMID: vmid, Format: format, Size: size})
}
