package acctest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestFound22Defaults: what the migration guide says about a VM made from scratch is what happens, row by row.
func TestFound22Defaults(t *testing.T) {
	t.Parallel()
	guide := read(t, "../../templates/guides/migrate.md.tmpl")
	_, table, _ := strings.Cut(guide, "\n## Defaults that are not the same\n")
	table, _, _ = strings.Cut(table, "\n## ")
	w := NewWorld(t)
	s := w.Session(t, RootTicket, `resource "proxmox_vm" "x" {
  name       = "x"
  vmid       = 400
  node       = "pve1"
  disks      = { scsi0 = { storage = "local-zfs", import_from = "local:import/disk.qcow2" } }
  networks   = { net0 = {} }
  tpm_state  = { storage = "local-zfs" }
}`)
	must(t, s.Converge(t.Context()))
	asked := false
	for _, op := range w.Sim.Ops() {
		asked = asked || strings.Contains(op.Path, "/agent/")
	}
	must(t, w.Session(t, RootTicket, "resource \"proxmox_vm\" \"z\" {\nname = \"z\"\nvmid = 401\nclone = { vmid = 9000 }\n}").Run(t.Context()))
	var config, clone map[string]string
	w.Change(func(world *state.World) { clone = world.Guests[401].Config })
	w.Change(func(world *state.World) { config = world.Guests[400].Config })
	absent := func(option string) bool { return config[option] == "" }
	lacks := func(option, part string) bool { return config[option] != "" && !strings.Contains(config[option], part) }
	refused := func(body string) bool {
		return w.Session(t, RootTicket, "resource \"proxmox_vm\" \"y\" {\nname = \"y\"\nnode = \"pve1\"\n"+body+"\n}").Validate(t.Context()) != nil
	}
	holds := map[string]bool{
		"onboot":                 absent("onboot"),
		"scsihw":                 absent("scsihw"),
		"networks.<slot>.bridge": lacks("net0", "bridge"),
		"cpu.type":               absent("cpu"),
		"memory.balloon":         absent("balloon"),
		"disks.<slot>.size":      strings.Contains(config["scsi0"], "size=2G") && refused(`disks = { scsi0 = { storage = "local" } }`),
		"disks.<slot>.storage":   refused(`disks = { scsi0 = { size = "1G" } }`),
		"efi_disk.storage":       refused(`efi_disk = { type = "4m" }`),
		"tpm_state.storage":      refused(`tpm_state = { version = "v2.0" }`),
		"cloud_init.storage":     refused(`cloud_init = { user = "me" }`),
		"cdroms.<slot>.file":     absent("ide3"),
		"serial.<slot>.device":   refused(`serial = { serial0 = {} }`),
		"clone.full":             strings.Contains(clone["scsi0"], "base-9000-disk-0/"),
		"keyboard":               absent("keyboard"),
		"tpm_state.version":      !strings.Contains(config["tpmstate0"], "v2.0"),
		"wait_for":               !asked,
	}
	named := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([a-z][^` ]*)`").FindAllStringSubmatch(row[1], -1) {
			named++
			if ok, known := holds[name[1]]; !known || !ok {
				t.Errorf("the row of %s does not hold: %v", name[1], config)
			}
		}
	}
	if named != len(holds) {
		t.Errorf("the table names %d attributes, %d are tried", named, len(holds))
	}
	for _, untrue := range []string{"an error in the plan, for the time being", "no restart; listed in"} {
		if strings.Contains(guide, untrue) {
			t.Errorf("the guide says %q", untrue)
		}
	}
}
