package conformance_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// thirdCalls is the third recording: values of options, privileges by option, what is deleted and reverted, cloud-init,
// snapshots, disks, clones, power, firewall, storages, backups, HA, mappings, identities and pools.
func thirdCalls() callTable {
	return callTable{
		name: "calls-3", steps: thirdSteps, files: "3", onlyTime: func(int) bool { return false },
		repeatable: func(*conformer, int) bool { return false },
	}
}

// thirdWorld is the server of the third recording before the first request: three templates, and a role for the provider.
func thirdWorld() *state.World {
	w := conformanceWorld()
	clear(w.Storages)
	clear(w.Volumes)
	clear(w.Pools)
	dir := func(id, path string, content ...string) *state.Storage {
		return &state.Storage{ID: id, Type: "dir", Path: path, Total: 270553174016, Content: content}
	}
	off := dir("disabled1", "/srv/disabled1", "images", "iso", "snippets")
	off.Disabled = true
	for _, s := range []*state.Storage{
		dir("local", "/var/lib/vz", "rootdir", "import", "vztmpl", "snippets", "backup", "iso", "images"),
		dir("local2", "/srv/local2", "images", "iso", "import", "snippets"), dir("nosnip", "/srv/nosnip", "images"), off,
		{ID: "local-zfs", Type: "zfspool", Path: "rpool/data", Total: 64424607744, Content: []string{"images", "rootdir"}},
		{ID: "local-lvm", Type: "lvmthin", Path: "pve/data", Total: 32212254720, Content: []string{"images", "rootdir"}},
		{ID: "lvm-thick", Type: "lvm", Path: "thick", Total: 21474836480, Content: []string{"images", "rootdir"}},
	} {
		w.Storages[s.ID] = s
	}
	node := w.Nodes["pve1"]
	node.Address, node.CPUs, node.Memory, node.Lacks = "10.10.10.1", 2, 25276502016, []string{"termproxy"}
	node.Resolver = &state.Resolver{Servers: []string{"10.255.255.53"}}
	delete(w.Roles, "TerraformProv")
	w.Roles["Terraform"] = conformancePrivilegesOfProvider()
	for id := range w.Users {
		if id != "root@pam" && id != "terraform@pve" {
			delete(w.Users, id)
		}
	}
	w.Users["root@pam"].Email = "root@example.com"
	delete(w.Tokens, "root@pam!sep")
	delete(w.Tokens, "limited@pve!ro")
	w.Tokens["root@pam!pr"] = &state.Token{ID: "root@pam!pr", Secret: w.UUID()}
	w.ACL = []state.ACLEntry{{Path: "/", Subject: "terraform@pve", Role: "Terraform", Propagate: true}}
	thirdTemplates(w)
	return w
}

func thirdTemplates(w *state.World) {
	for id, volume := range map[int]string{9000: "local-zfs:base-9000-disk-0", 9001: "local:9001/base-9001-disk-0.qcow2", 9002: "local-lvm:base-9002-disk-0"} {
		storage, name, _ := strings.Cut(volume, ":")
		orphanVolume(w, storage, name, id, 1<<30)
		names := map[int]string{9000: "tmpl-zfs", 9001: "tmpl-local", 9002: "tmpl-lvm"}
		w.Guests[id] = &state.Guest{VMID: id, Type: "qemu", Node: "pve1", Config: map[string]string{
			"name": names[id], "template": "1", "memory": "128", "serial0": "socket", "boot": "order=scsi0", "scsi0": volume + ",size=1G",
			"smbios1": "uuid=" + w.UUID(), "vmgenid": w.UUID(), "meta": "creation-qemu=9.2.0,ctime=1767225600",
		}}
	}
}

// The user that the third recording makes, with three privileges.
const limitedUser, limitedPassword = "lim@pve", "limpassword"

// thirdRoles name the things of the third recording.
func thirdRoles(roles map[string]string) {
	maps.Copy(roles, map[string]string{
		"{dir2.path}": "/srv/local2", "{dir3.path}": "/srv/nosnip", "{disabled.path}": "/srv/disabled1", "{token}": "root@pam!pr",
		"{tokenid}": "pr",
	})
}

// third asks the third recording's server.
func (s *conformer) third() *conformer {
	thirdRoles(s.roles)
	if s.sim != nil {
		s.client.secrets["token"] = "root@pam!pr=" + s.sim.World().Tokens["root@pam!pr"].Secret
	}
	return s
}

// thirdSteps is what happened on the server between the rows of the third recording.
func thirdSteps(*conformer) map[int]func() { return map[int]func(){} }

// undone sends a row whose effect was taken back before the next one, and compares the options that changed.
func (s *conformer) undone(row callRow) []string {
	const id = 700
	var guest *state.Guest
	volumes := map[state.VolumeKey]*state.Volume{}
	s.change(func(w *state.World) {
		guest = w.Guests[id].Clone()
		maps.Copy(volumes, w.Volumes)
	})
	before := s.optionsOf(id)
	diff := s.call(row)
	if row.Stored != nil {
		changed := map[string]any{}
		for k, v := range s.optionsOf(id) {
			if k != "digest" && compactJSON(before[k]) != compactJSON(v) {
				changed[k] = v
			}
		}
		diff = append(diff, conformanceDiff("stored", s.namedValue(row.Stored), changed)...)
	}
	s.change(func(w *state.World) {
		w.Guests[id] = guest
		maps.DeleteFunc(w.Volumes, func(k state.VolumeKey, _ *state.Volume) bool { return volumes[k] == nil })
		maps.Copy(w.Volumes, volumes)
	})
	return diff
}

// optionsOf reads a guest's configuration.
func (s *conformer) optionsOf(id int) map[string]any {
	a, err := s.client.do(s.t.Context(), "token", "GET", s.named(fmt.Sprintf("/nodes/{node}/qemu/%d/config", id)), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	config, _ := a.data.(map[string]any)
	return config
}

// undoes reports whether a row's effect was taken back before the next one.
func (row callRow) undoes() bool {
	return row.Stored != nil || slices.Contains([]string{"values", "privileges by option"}, row.Area)
}

// fourthCalls is the fourth recording, on the server of the third one: odd descriptions and names of volumes, a guest that
// does not acknowledge an unplug, one that an identity is not to see, and a second name of a storage.
func fourthCalls() callTable {
	return callTable{
		name: "calls-4", steps: fourthSteps, files: "4", onlyTime: func(int) bool { return false },
		repeatable: func(*conformer, int) bool { return false },
	}
}

func fourthWorld() *state.World {
	w := thirdWorld()
	w.Roles["Terraform"] = strings.Fields(`Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit
		Pool.Allocate Pool.Audit SDN.Use Sys.AccessNetwork Sys.Audit VM.Allocate VM.Audit VM.Clone VM.Config.CDROM VM.Config.CPU
		VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options VM.Migrate
		VM.Monitor VM.PowerMgmt`)
	return w
}

// fourthSteps: the guest with the two disks has no operating system.
func fourthSteps(s *conformer) map[int]func() {
	if s.sim != nil {
		s.roles["{dir2.path}"] = "/srv/local2"
	}
	return map[int]func(){
		35: func() { s.change(func(w *state.World) { w.Guests[7502].Ignores = []string{"unplug"} }) },
	}
}
