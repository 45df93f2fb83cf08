package docs_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestMigrationGuideDefaults: what the migration guides say of the defaults of a VM made from scratch is what happens, row by row.
func TestMigrationGuideDefaults(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, `resource "proxmox_vm" "x" {
  name       = "x"
  vmid       = 400
  node       = "pve1"
  disks      = { scsi0 = { storage = "local-zfs", import_from = "local:import/disk.qcow2" } }
  networks   = { net0 = {} }
  tpm_state  = { storage = "local-zfs" }
}`)
	rig.Must(t, s.Converge(t.Context()))
	asked := w.Questions() > 0
	rig.Must(t, w.Session(t, rig.RootTicket, `resource "proxmox_vm" "a" {
  node     = "pve1"
  networks = { net0 = {} }
  agent    = { enabled = true }
}`).Run(t.Context()))
	awaited := w.Questions() > 0
	rig.Must(t, w.Session(t, rig.RootTicket, "resource \"proxmox_vm\" \"z\" {\nname = \"z\"\nvmid = 401\nclone = { vmid = 9000 }\n}").Run(t.Context()))
	var config, clone map[string]string
	running := false
	w.Change(func(world *state.World) { clone = world.Guests[401].Config })
	w.Change(func(world *state.World) { config, running = world.Guests[400].Config, world.Guests[400].Running != nil })
	absent := func(option string) bool { return config[option] == "" }
	lacks := func(option, part string) bool { return config[option] != "" && !strings.Contains(config[option], part) }
	refused := func(body string) bool {
		_, err := w.Session(t, rig.RootTicket, "resource \"proxmox_vm\" \"y\" {\nname = \"y\"\nnode = \"pve1\"\n"+body+"\n}").Plan(t.Context())
		return err != nil
	}
	if refused("") {
		t.Fatal("a VM that has nothing is refused")
	}
	holds := map[string]bool{
		"onboot":                 absent("onboot"),
		"scsihw":                 absent("scsihw"),
		"networks.<slot>.bridge": lacks("net0", "bridge"),
		"cpu.type":               absent("cpu"),
		"memory.balloon":         absent("balloon"),
		"disks.<slot>.size":      strings.Contains(config["scsi0"], "size=2G") && refused(`disks = { scsi0 = { storage = "local" } }`),
		"disks.<slot>.replicate": !strings.Contains(config["scsi0"], "replicate"), // which is 1
		"disks.<slot>.storage":   refused(`disks = { scsi0 = { size = "1G" } }`),
		"efi_disk.storage":       refused(`efi_disk = { type = "4m" }`),
		"tpm_state.storage":      refused(`tpm_state = { version = "v2.0" }`) && !strings.Contains(config["tpmstate0"], "v2.0"),
		"cloud_init.storage":     refused(`cloud_init = { user = "me" }`),
		"cdroms.<slot>.file":     absent("ide3"),
		"serial.<slot>.device":   refused(`serial = { serial0 = {} }`),
		"clone.full":             strings.Contains(clone["scsi0"], "base-9000-disk-0/"),
		"keyboard":               absent("keyboard"),
		"wait_for.ipv4":          !asked && awaited, // with agent.enabled
		"power_state":            running,
		"description":            absent("description"),
		"cloud_init.upgrade":     absent("ciupgrade"), // which is 1
	}
	var guides strings.Builder
	named := map[string]bool{}
	for _, from := range []string{"bpg", "telmate"} {
		guide := rig.ReadFile(t, "../../../templates/guides/migrate-from-"+from+".md.tmpl")
		guides.WriteString(guide)
		for _, row := range regexp.MustCompile("(?m)^\\|[^|]*\\| `([a-z][^` ]*)`[^|]*\\| *[^| ][^|]*\\|$").FindAllStringSubmatch(guide, -1) {
			name := row[1]
			if strings.HasPrefix(name, "on_destroy.") { // destroy.TestDeafGuestIsCutOff tests it
				continue
			}
			named[name] = true
			if ok, known := holds[name]; !known || !ok {
				t.Errorf("%s: the row of %s does not hold: %v", from, name, config)
			}
		}
	}
	if len(named) != len(holds) {
		t.Errorf("the tables name %d attributes, %d are tried: %v", len(named), len(holds), slices.Sorted(maps.Keys(named)))
	}
	for _, untrue := range []string{"an error in the plan, for the time being", "no restart; listed in"} {
		if strings.Contains(guides.String(), untrue) {
			t.Errorf("a guide says %q", untrue)
		}
	}
}
