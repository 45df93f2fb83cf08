package permissions_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// permitted is the configuration for the documented role: both ways to make a VM, with an agent, and the data sources.
var permitted = strings.NewReplacer(
	`["scsi0", "net0"]`, `["scsi0", "net0", "ide0"]`,
	"  protection = false", "  agent = { enabled = true }",
).Replace(rig.ScratchVM+rig.CloneVM) + `
data "proxmox_node" "one" { name = "pve1" }
data "proxmox_nodes" "all" {}
`

// permittedChange is an update of it that touches an option of each kind.
var permittedChange = strings.NewReplacer(
	`pool        = "web"`, "", "cores = 2", "cores = 3", "size = 2048", "size = 3072", `size = "8G"`, `size = "9G"`,
	`"vmbr0", firewall`, `"vmbr1", firewall`, "iso/debian.iso", "iso/other.iso", `["one", "two"]`, `["one"]`,
).Replace(permitted)

// refusals gives the failure without each privilege of the documented role: a text in the message of an apply or an update,
// "" if there is no message. A text that begins with "It takes" is from the plan, before anything is changed.
var refusals = map[string]string{
	"VM.Allocate": "It takes VM.Allocate on /vms/202", "VM.Audit": `It takes VM.Audit on /vms/9000`, "VM.Clone": `It takes VM.Clone on /vms/9000`,
	"VM.PowerMgmt": `It takes VM.PowerMgmt on /vms/202`, "VM.Config.CDROM": `It takes VM.Config.CDROM on /vms/201`,
	"VM.Config.CPU": `It takes VM.Config.CPU on /vms/201 or /pool/web`, "VM.Config.Cloudinit": "",
	"VM.Config.Disk":   `It takes VM.Config.Disk on /vms/202`,
	"VM.Config.HWType": `It takes VM.Config.HWType on /vms/201`, "VM.Config.Memory": `It takes VM.Config.Memory on /vms/202`,
	"VM.Config.Network": `It takes VM.Config.Network on /vms/201`, "VM.Config.Options": `It takes VM.Config.Options on /vms/202`,
	"VM.Monitor": "the agent may not be asked", "VM.GuestAgent.Audit": "",
	"Datastore.AllocateSpace": `It takes Datastore.AllocateSpace on /storage/local-zfs`, "Datastore.Allocate": "", "Datastore.Audit": "",
	"Pool.Allocate": `It takes Pool.Allocate on /pool/web`, "Pool.Audit": `It takes Pool.Audit on /pool/web`,
	"VM.Migrate":                 "",                          // TestRoleMigrates
	"Datastore.AllocateTemplate": "", "Sys.AccessNetwork": "", // TestRoleOfImages
	"SDN.Use": `no bridge, as far as this identity may use them (SDN.Use)`, "Sys.Audit": `/nodes/pve1, Sys.Audit`,
	"Sys.Syslog": "", // TestUseIsRenewedByWhatPVERecords
}

// documentedRole reads the role from the guide, and wants its table to explain each privilege in it and no other.
func documentedRole(t *testing.T) []string {
	t.Helper()
	guide := rig.ReadFile(t, "../../../templates/guides/permissions.md.tmpl")
	command := regexp.MustCompile(`(?s)pveum role add \w+ --privs "([^"]*)"`).FindStringSubmatch(guide)
	if command == nil {
		t.Fatal("the guide has no command for the role")
	}
	role := strings.Fields(strings.ReplaceAll(command[1], "\\\n", ""))
	var explained []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(guide, -1) {
		for _, name := range regexp.MustCompile("`([A-Z]\\w+\\.[A-Z][\\w.]*)`").FindAllStringSubmatch(row[1], -1) {
			if name[1] != "VM.GuestAgent.Audit" { // PVE 9's name of VM.Monitor
				explained = append(explained, name[1])
			}
		}
	}
	slices.Sort(explained)
	if sorted := slices.Sorted(slices.Values(role)); !slices.Equal(sorted, slices.Compact(explained)) {
		t.Errorf("the role is %v, explained are %v", sorted, explained)
	}
	return role
}

// permissionWorld is a cluster whose token has these privileges and no others.
func permissionWorld(t *testing.T, profile string, role []string) *rig.World {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Profile: profile})
	w.Change(func(world *state.World) {
		world.Roles["TerraformProvider"] = slices.Clone(role)
		delete(world.Guests[9000].Config, "protection")
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/other.iso", Content: "iso", Format: "iso", Size: 1 << 20})
	})
	w.Mark()
	return w
}

// TestDocumentedRole does everything with the role of the guide, under the names of PVE 8 and of PVE 9.
func TestDocumentedRole(t *testing.T) {
	t.Parallel()
	eight := documentedRole(t)
	nine := slices.Clone(eight)
	nine[slices.Index(nine, "VM.Monitor")] = "VM.GuestAgent.Audit"
	for profile, role := range map[string][]string{"8.4": eight, "9.0": nine} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			w := permissionWorld(t, profile, role)
			s := w.Session(t, rig.TokenNoSSH, permitted)
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Refresh(t.Context()))
			if ip := s.Attr("proxmox_vm.clone", "ipv4_address"); ip.IsNull() {
				t.Error("the agent's address is not shown")
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, permittedChange)
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
			w.MustBeClean(t)
		})
	}
}

// TestRoleWithoutAPrivilege takes each privilege away in turn: what the guide says is lost is lost, and said so with the
// privilege's name; everything else goes on, and nothing stays behind.
func TestRoleWithoutAPrivilege(t *testing.T) {
	t.Parallel()
	all := documentedRole(t)
	for _, missing := range all {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			want, ok := refusals[missing]
			if !ok {
				t.Fatalf("no message names the loss without %s", missing)
			}
			w := permissionWorld(t, "8.4", slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == missing }))
			s := w.Session(t, rig.TokenNoSSH, permitted)
			said := attempt(s, func() error { return s.Converge(t.Context()) })
			w.Reconfigure(t, s, rig.TokenNoSSH, permittedChange)
			said += attempt(s, func() error { return s.Converge(t.Context()) })
			if want == "" && said != "" || want != "" && !strings.Contains(said, want) {
				t.Errorf("said %q, want %q", said, want)
			}
			refused, free := permittedChange, permitted
			if missing == "Pool.Audit" { // the change takes the VMs out of their pool
				refused, free = permitted, permittedChange
			}
			if strings.HasPrefix(want, "It takes") {
				w.Reconfigure(t, s, rig.TokenNoSSH, refused)
				if _, err := s.Plan(t.Context()); err == nil {
					t.Error("the plan does not refuse it")
				}
				w.Reconfigure(t, s, rig.TokenNoSSH, free) // a plan that is refused stands in the way of a destroy, too
			}
			said = attempt(s, func() error { return s.Destroy(t.Context()) })
			if left := w.Leaks(); len(left) > 0 {
				t.Errorf("left: %v; the destroy said %q", left, said)
			}
		})
	}
	if extra := len(refusals) - len(all); extra != 1 {
		t.Errorf("refusals has %v, the role %v", slices.Sorted(maps.Keys(refusals)), all)
	}
}

// TestRoleOfImages: the role is enough to download an image and to remove it, and these are what that takes.
func TestRoleOfImages(t *testing.T) {
	t.Parallel()
	config := "resource \"proxmox_image\" \"mine\" {\n  node = \"pve1\"\n  storage = \"local\"\n  url = \"https://example.org/a.qcow2\"\n  checksum = \"" +
		rig.WebChecksum() + "\"\n}\n"
	role := documentedRole(t)
	for missing, want := range map[string]string{"": "", "Datastore.AllocateTemplate": "Datastore.AllocateTemplate on /storage/local",
		"Sys.AccessNetwork": "Sys.AccessNetwork on /nodes/pve1"} {
		w := rig.NewWorld(t, pvesim.Options{}.ForGuides())
		w.Change(func(world *state.World) {
			world.Roles["TerraformProvider"] = slices.DeleteFunc(slices.Clone(role), func(p string) bool { return p == missing })
		})
		w.Mark()
		s := w.Session(t, rig.TokenNoSSH, config)
		if said := attempt(s, func() error { return s.Converge(t.Context()) }); !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("without %q: said %q", missing, said)
		}
		rig.Must(t, s.Destroy(t.Context()))
		w.MustBeClean(t)
	}
}

// TestRoleMigrates: the role is enough to take a VM to another node, and VM.Migrate is what that takes.
func TestRoleMigrates(t *testing.T) {
	t.Parallel()
	const config = "resource \"proxmox_vm\" \"mine\" {\n  node = %q\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n"
	role := documentedRole(t)
	for missing, want := range map[string]string{"": "", "VM.Migrate": "VM.Migrate"} {
		w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
		w.Change(func(world *state.World) {
			world.Roles["TerraformProvider"] = slices.DeleteFunc(slices.Clone(role), func(p string) bool { return p == missing })
		})
		s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(config, "pve1"))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(config, "pve2"))
		if said := attempt(s, func() error { return s.Converge(t.Context()) }); !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("without %q: said %q", missing, said)
		}
	}
}

// narrowPermissions reads the example with narrow paths from the guide: the roles that it makes, and the rights of the user on each path.
func narrowPermissions(t *testing.T) (roles map[string][]string, acl map[string]string) {
	t.Helper()
	_, section, _ := strings.Cut(rig.ReadFile(t, "../../../templates/guides/permissions.md.tmpl"), "\n## What else the role allows\n")
	_, block, _ := strings.Cut(section, "```shell\n")
	block, _, _ = strings.Cut(block, "```")
	roles, acl = map[string][]string{"Terraform": documentedRole(t)}, map[string]string{"/": "Terraform"}
	for line := range strings.Lines(block) {
		word := strings.Fields(line)
		switch command := strings.Join(word[:3], " "); {
		case command == "pveum pool add" && word[3] == "web": // which every world has
		case command == "pveum role add":
			roles[word[3]] = strings.Fields(strings.Split(line, `"`)[1])
		case command == "pveum acl delete" && acl[word[3]] == word[7]:
			delete(acl, word[3])
		case command == "pveum acl modify" && roles[word[7]] != nil && word[5] == "terraform@pve":
			acl[word[3]] = word[7]
		default:
			t.Fatalf("%q is not understood", line)
		}
	}
	return roles, acl
}

// TestRoleOnNarrowPaths creates, changes and destroys VMs with exactly the permissions of the guide's example. Outside
// of its paths the identity may only look.
func TestRoleOnNarrowPaths(t *testing.T) {
	t.Parallel()
	roles, acl := narrowPermissions(t)
	for path, role := range acl {
		if path == "/" && slices.ContainsFunc(roles[role], func(p string) bool { return !strings.HasSuffix(p, ".Audit") }) {
			t.Errorf("on %s it gets %v", path, roles[role])
		}
	}
	narrow := strings.NewReplacer("local-lvm", "local-zfs", "vmid     = 202", "vmid     = 202\n  pool     = \"web\"").Replace
	w := permissionWorld(t, "8.4", nil)
	w.Change(func(world *state.World) {
		maps.Copy(world.Roles, roles)
		world.ACL = slices.DeleteFunc(world.ACL, func(e state.ACLEntry) bool { return strings.HasPrefix(e.Subject, "terraform@pve") })
		for path, role := range acl {
			for _, subject := range []string{"terraform@pve", "terraform@pve!prov"} {
				world.ACL = append(world.ACL, state.ACLEntry{Path: path, Subject: subject, Role: role, Propagate: true})
			}
		}
	})
	w.Mark()
	s := w.Session(t, rig.TokenNoSSH, narrow(permitted))
	rig.Must(t, s.Converge(t.Context()))
	rig.Must(t, s.Refresh(t.Context()))
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.ReplaceAll(narrow(permittedChange), `tags        = ["one"]`, "tags = [\"one\"]\n  pool = \"web\""))
	rig.Must(t, s.Converge(t.Context()))
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
	for outside, says := range map[string]string{
		`disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`:                       "VM.Allocate",
		"pool = \"web\"\n  disks = { scsi0 = { storage = \"local-lvm\", size = \"1G\" } }": "Datastore.AllocateSpace on /storage/local-lvm",
	} {
		w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock("node = \"pve1\"\nvmid = 300\n"+outside))
		rig.MustSay(t, s.Run(t.Context()), says)
		w.MustBeClean(t)
	}
}

// permittedData are the data sources that read more than a plan does, and their notes about objects that they could not read.
const permittedData = `
data "proxmox_version" "server" {}
data "proxmox_vms" "all" {}
data "proxmox_vm" "one" { vmid = 8000 }
data "proxmox_storages" "all" {}
data "proxmox_files" "images" {
  storage = "local"
  node    = "pve1"
}
data "proxmox_orphans" "all" {}
`

// unlooked says of each privilege of the documented role what the data sources say without it, "" where nothing is said.
var unlooked = map[string]string{
	"VM.Audit": "There is no VM 8000|this identity does not see all guests of the cluster: that takes VM.Audit on /vms",
	"Sys.Audit": "entries of HA: list the HA resources: Permission check failed (/, Sys.Audit)|permissions on guests: this identity does not see " +
		"all of them: that takes Sys.Audit on /access|members of pools",
	"Datastore.Audit": "there is no storage local on node pve1, or it is disabled, or this identity may not see it (Datastore.Audit)",
	"Datastore.Allocate": "snippets on storage local: needs Datastore.Allocate on the storage|" +
		"backups on storage local: needs Datastore.Allocate on the storage, or Datastore.AllocateSpace there and VM.Backup on /vms",
}

// TestRoleOfTheDataSources: the role of the guide shows everything. A missing privilege hides objects, and the data source says so.
func TestRoleOfTheDataSources(t *testing.T) {
	t.Parallel()
	role := documentedRole(t)
	for _, missing := range append([]string{""}, role...) {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			w := permissionWorld(t, "8.4", slices.DeleteFunc(slices.Clone(role), func(p string) bool { return p == missing }))
			s := w.Session(t, rig.TokenNoSSH, permittedData)
			said := attempt(s, func() error { return s.Run(t.Context()) })
			for _, want := range strings.Split(unlooked[missing], "|") {
				if want == "" && said != "" || !strings.Contains(strings.ToLower(said), strings.ToLower(want)) {
					t.Errorf("said %q, want %q", said, want)
				}
			}
			w.MustBeClean(t)
		})
	}
}

// attempt gives everything that an operation says, an error or not.
func attempt(s *terraformtest.Session, do func() error) string {
	var said strings.Builder
	if err := do(); err != nil {
		said.WriteString(err.Error())
	}
	for _, d := range s.Diagnostics() {
		if !strings.HasSuffix(d.Summary, "will be restarted") { // which it is to say
			said.WriteString(d.Summary + ": " + d.Detail + "\n")
		}
	}
	return said.String()
}
