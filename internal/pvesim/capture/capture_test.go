package capture_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/capture"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves a world as root's token sees it, and gives the way to look at it.
func start(t *testing.T, o pvesim.Options) (*pvesim.Sim, capture.Config) {
	t.Helper()
	sim, err := pvesim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	token := sim.Credentials().RootToken
	return sim, capture.Config{Endpoint: sim.Endpoint(), Token: token, CACertificate: sim.CAPEM(), Texts: true,
		DialContext: sim.DialContext}
}

// full is a world with something in every section of the file.
func full() *state.World {
	w := state.Default([]string{"pve1", "pve2", "pve3"})
	w.Furnish()
	w.NextID.Lower, w.NextID.Upper, w.CaseSensitiveTags = 200, 5000, true
	w.Nodes["pve1"].VLANAware = []string{"vmbr0"}
	g := w.Guests[8000]
	g.Running = &state.Running{QMPStatus: "running", Booted: maps.Clone(g.Config)}
	g.Config["agent"], g.Running.Booted["agent"] = "1", "1"
	g.Config["description"] = "erste Zeile: größer\nsecond\twith 'quotes' and \"more\": # no comment\n\n  indented — " +
		"日本語 🙂\npassword=hunter2 " +
		strings.Repeat("long ", 1500)
	g.Config["cipassword"], g.Config["sshkeys"] = "$5$secret", "ssh-ed25519%20AAAA%20me%40home"
	g.Config["ciuser"], g.Config["ipconfig0"], g.Config["tags"] = "susan", "ip=203.0.113.7/24,gw=203.0.113.1", "db;prod"
	g.Config["nameserver"], g.Config["searchdomain"] = "203.0.113.53 2001:db8:77::53", "corp.example.net"
	g.Config["args"] = "-vnc :1,password=topsecret"
	g.Pending = map[string]string{"memory": "4096", "cipassword": "another"}
	g.Deletes = map[string]int{"tags": 1}
	g.Config["parent"] = "before"
	g.Snaps = map[string]map[string]string{"before": {"name": "existing", "snaptime": "1767225600", "memory": "1024",
		"description": "first",
		"scsi0":       g.Config["scsi0"], "smbios1": g.Config["smbios1"], "cipassword": "x"}}
	w.Volume("pve1", "local-lvm:vm-8000-disk-0").TakeSnapshot("before")
	w.Pools["web"].Guests, w.Pools["web"].Storages = []int{8000}, []string{"local-zfs"}
	w.Pools["web/inner"] = &state.Pool{ID: "web/inner", Comment: "token: abc", Guests: []int{8100}}
	w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "started", Group: "front",
		Options: map[string]string{"max_restart": "3", "comment": "c"}}
	w.HAGroups["front"] = &state.HAGroup{ID: "front", Nodes: []string{"pve1", "pve2"}, Restricted: true}
	w.Firewall[8000] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "DROP"},
		Rules: []map[string]string{{"type": "in", "action": "ACCEPT", "source": "203.0.113.0/24", "enable": "1",
			"comment": "office hours"}},
		Aliases: map[string]map[string]string{"office": {"name": "Office", "cidr": "203.0.113.9"}},
		IPSets: map[string]*state.IPSet{"friends": {Comment: "of us",
			Entries: []map[string]string{{"cidr": "203.0.113.10"}, {"cidr": "203.0.113.11", "nomatch": "1"}}}}}
	w.Replication["8000-0"] = &state.ReplicationJob{ID: "8000-0", Guest: 8000, Target: "pve2", Schedule: "*/15"}
	w.Backups["nightly"] = &state.BackupJob{ID: "nightly", VMIDs: []int{8000, 9000}, Storage: "local", Schedule: "2:00"}
	w.Mappings = []*state.Mapping{{Kind: "pci", ID: "gpu", Nodes: []string{"pve1", "pve2"}, LiveMigration: true},
		{Kind: "dir", ID: "exports", Nodes: []string{"pve3"}}}
	w.Storages["local2"].Disabled = true
	w.Storages["local-zfs"].Nodes = []string{"pve1", "pve2"}
	for key := range w.Volumes {
		if key.Storage == "local-zfs" && key.Node == "pve3" {
			delete(w.Volumes, key)
		}
	}
	w.Users["terraform@pve"].Expire, w.Users["auditor@pve"].Disabled = 1893456000, true
	w.ACL = append(w.ACL, state.ACLEntry{Path: "/pool/web", Subject: "lite@pve", Role: "PVEVMUser"},
		state.ACLEntry{Path: "/storage/local-zfs", Subject: "terraform@pve!prov", Role: "PVEDatastoreUser", Propagate: true})
	return w
}

// away is a world whose first node, with all its guests, is offline.
func away() *state.World {
	w := full()
	w.Nodes["pve1"].Online = false
	return w
}

func document(t *testing.T, f *state.File) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCaptureOfACapture: a world that was made by looking, served and looked at, is the same file; and the look only
// reads.
func TestCaptureOfACapture(t *testing.T) {
	for _, c := range []struct {
		profile string
		mask    []string
	}{{"8.4", nil}, {"9.2", nil}, {"8.0", nil}, {"8.4", []string{"all"}}} {
		t.Run(fmt.Sprint(c.profile, c.mask), func(t *testing.T) {
			world := full()
			if c.profile == "9.2" {
				world.HA["vm:8000"].Group = ""
				world.HARules = map[string]map[string]string{"near": {"type": "node-affinity", "resources": "vm:8000",
					"nodes": "pve1:2,pve2", "strict": "1"}}
			}
			sim, config := start(t, pvesim.Options{World: world, Profile: c.profile})
			before := sim.Snapshot()
			config.Mask = c.mask
			first, err := capture.Run(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(sim.Snapshot(), before) {
				t.Error("the look changed the cluster")
			}
			for _, op := range sim.Ops() {
				if op.Method != http.MethodGet {
					t.Errorf("%s %s: a look only reads", op.Method, op.Path)
				}
			}
			text := document(t, first)
			again, err := state.Read([]byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			_, next := start(t, pvesim.Options{World: again})
			next.Token = rootToken(first)
			second, err := capture.Run(t.Context(), next)
			if err != nil {
				t.Fatal(err)
			}
			first.Captured.Masked, second.Captured.Masked = nil, nil
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("the capture of the capture differs (-first +second):\n%s", diff)
			}
			if len(first.Captured.NotSeen) > 0 {
				t.Errorf("not seen: %q", first.Captured.NotSeen)
			}
		})
	}
}

// rootToken is the token of root@pam in a captured world, with its secret: its name may be a pseudonym.
func rootToken(f *state.File) string {
	i := slices.IndexFunc(f.Tokens, func(t state.FileToken) bool { return strings.HasPrefix(t.ID, "root@pam!") })
	return f.Tokens[i].ID + "=" + f.Tokens[i].Secret
}

// TestSecrets: no secret of the cluster is in the file, whatever is masked.
func TestSecrets(t *testing.T) {
	for _, mask := range [][]string{nil, {"all"}} {
		sim, config := start(t, pvesim.Options{World: full()})
		config.Mask = mask
		f, err := capture.Run(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		secrets := []string{"$5$secret", "another", "hunter2", "topsecret", "token: abc", "#cloud-config"}
		w := sim.World()
		w.Lock()
		for _, u := range w.Users {
			secrets = append(secrets, u.Password)
		}
		for _, token := range w.Tokens {
			secrets = append(secrets, token.Secret)
		}
		w.Unlock()
		text := document(t, f)
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("mask %v: the file holds %q", mask, secret)
			}
		}
	}
}

// TestMask: of each kind no word is left, other kinds stand as they were, and what refers to each other still does.
func TestMask(t *testing.T) {
	words := map[string][]string{
		"names": {"pve1", "pve2", "pve3", "local-zfs", "local-lvm", "shared-nfs", "existing", "inner", "desktop", "front",
			"gpu", "exports", "terraform@pve",
			"auditor", "prov", "susan", "corp.example.net", "debian.iso", "user.yaml", "rpool"},
		"addresses":    {"203.0.113.", "2001:db8:77::53", "192.0.2.11", "10.0.0."},
		"macs":         {"BC:24:11:"},
		"descriptions": {"erste Zeile", "office hours", "of us", "web servers"},
		"tags":         {"db;prod"},
		"sshkeys":      {"AAAA%20me"},
	}
	if got := slices.Sorted(maps.Keys(words)); !slices.Equal(got, capture.MaskKinds()) {
		t.Fatalf("kinds %v, tested %v", capture.MaskKinds(), got)
	}
	look := func(mask ...string) (*state.File, string) {
		_, config := start(t, pvesim.Options{World: full()})
		config.Mask = mask
		f, err := capture.Run(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		text := document(t, f)
		if _, err := state.Read([]byte(text)); err != nil {
			t.Fatalf("mask %v: %v", mask, err)
		}
		return f, text
	}
	_, plain := look()
	macs := macsOf(plain)
	for kind, list := range words {
		_, text := look(kind)
		for other, list := range words {
			for _, word := range list {
				if other == kind && other != "macs" && strings.Contains(text, word) {
					t.Errorf("mask %s: %q is left", kind, word)
				}
				if !strings.Contains(plain, word) || other != kind && !strings.Contains(text, word) && kind != "descriptions" {
					t.Errorf("mask %s: %q is gone", kind, word)
				}
			}
		}
		for _, mac := range macs {
			if kind == "macs" && strings.Contains(text, mac) {
				t.Errorf("%s is left", mac)
			}
		}
		_ = list
	}
	_, config := start(t, pvesim.Options{World: away()})
	config.Mask = []string{"names"}
	if f, err := capture.Run(t.Context(), config); err != nil || len(f.Captured.NotSeen) < 2 ||
		strings.Contains(document(t, f), "pve1") {
		t.Errorf("what could not be seen: %v %q", err, f.Captured.NotSeen)
	}
	f, text := look("all")
	vm := f.Guests[slices.IndexFunc(f.Guests, func(g state.FileGuest) bool { return g.VMID == 8000 })]
	volid, _, _ := strings.Cut(vm.Config["scsi0"], ",")
	if !strings.Contains(text, "volume: "+volid+"\n") || vm.Snapshots["before"]["scsi0"] != vm.Config["scsi0"] {
		t.Errorf("the disk %s is no volume of the file", volid)
	}
	_, mac, _ := strings.Cut(vm.Config["net0"], "=")
	mac, _, _ = strings.Cut(mac, ",")
	if !slices.ContainsFunc(vm.Agent.Interfaces, func(i state.FileInterface) bool {
		return strings.EqualFold(i.MAC,
			mac)
	}) {
		t.Errorf("the agent knows no interface with %s: %v", mac, vm.Agent.Interfaces)
	}
	if _, err := capture.Run(t.Context(), capture.Config{Mask: []string{"nmes"}}); err == nil ||
		!strings.Contains(err.Error(), `"nmes" cannot be masked`) {
		t.Errorf("an unknown kind: %v", err)
	}
}

// macsOf are the MAC addresses of a document's network cards.
func macsOf(text string) (macs []string) {
	for _, part := range strings.Split(text, "virtio=")[1:] {
		macs = append(macs, part[:17])
	}
	return macs
}
