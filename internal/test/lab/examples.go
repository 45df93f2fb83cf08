package lab

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// exampleNeeds are what examples need; one that is not here needs nothing special.
var exampleNeeds = map[string][]Need{
	"data-sources/proxmox_import_metadata": {SecondStorage, ESXi},
	"resources/proxmox_image":              {ImportImage, ImageURL},
	"resources/proxmox_cloud_init_iso":     {Directory},
	"resources/proxmox_vm":                 {SecondStorage, ISO},
	"guides/cloud-image":                   {ImportImage, ImageURL},
	"guides/data-disks":                    {SecondStorage, Directory},
	"guides/from-libvirt":                  {SecondStorage, ImportImage},
	"guides/from-vsphere":                  {SecondStorage, ESXi, Appliance},
	"guides/gpu-passthrough":               {ImportImage, PCIMapping},
	"guides/migrate-from-bpg":              {SecondStorage, ImportImage},
	"guides/migrate-from-telmate":          {SecondStorage, Directory},
	"guides/restore":                       {Backup},
	"guides/talos":                         {ISO},
	"guides/template":                      {ImportImage, LinkedClones},
	"guides/user-data":                     {ImportImage, ImageURL, Directory},
	"guides/windows-11":                    {ISO},
}

// simulatedOnly are examples that no laboratory need be able to run, and why.
var simulatedOnly = map[string]string{
	"resources/proxmox_ha_rule":     "HA rules are of Proxmox VE 9, and the nodes are two",
	"guides/vms-on-different-nodes": "HA rules are of Proxmox VE 9, and the nodes are three",
}

// exampleSteps are the next steps of the guides.
var exampleSteps = map[string][]Step{
	"guides/data-disks": {
		{Set: map[string]string{"data_size": "4G"}, State: map[string]string{"proxmox_vm.database disks.scsi1.size": "4G"}},
		{Set: map[string]string{"data_size": "1G"}, Act: Plan, Fails: `scsi1`},
		{Set: map[string]string{"data_size": "4G"}, Power: AnyPower},
	},
}

// adapted says what stands in an example for what another cluster calls otherwise, and makes small what would take a laboratory
// long: large disks, many cores, and guests that have nothing to boot from and obey no request.
var adapted = []struct{ pattern, replacement string }{
	{`"pve\d"`, `"<node>"`},
	{`"local-zfs"`, `"<storage>"`},
	{`"local-lvm"`, `"<second>"`},
	{`(?s)(resource "proxmox_image" [^}]*?storage +)= "local"`, `$1= "<import storage>"`},
	{`(url +)= "[^"]*"`, `$1= "<url>"`},
	{`(?m)^  checksum += .*\n`, ``}, // of another file
	{`"shared-nfs"|"local"`, `"<dir>"`},
	{`"vmbr\d"`, `"<bridge>"`},
	{`"local:iso/[^"]*"`, `"<iso>"`},
	{`"esxi:[^"]*"`, `"<esxi>"`},
	{`"local:backup/[^"]*"`, `"<backup>"`},
	{`"local:import/[^"]*\.ova"`, `"<appliance>"`},
	{`"local:import/[^"]*"`, `"<import>"`},
	{`(pool +)= "[^"]*"`, `$1= "<pool>"`},
	{`default( +)= "gpu"`, `default$1= "<mapping>"`},
	{`vmid( +)= 9000`, `vmid$1= <template>`},
	{`(default +)= 9000`, `$1= <template>`},
	{`clone( +)= \{ name = "template"`, `clone$1= { vmid = <template>`},
	{`(?m)^  vmid += \d.*\n`, ``}, // the next free one of the range
	{`"\d{3}G"`, `"3G"`},
	{`cores( *)= [3-9]\b`, `cores$1= 2`},
	{`size = \d{4,}`, `size = 1024`},
	{`memory( *)= \d{4,}`, `memory$1= 1024`},
	{`balloon = 2048`, `balloon = 512`},
	{`timeout = "5m", on_timeout = "warn"`, `timeout = "5s", on_timeout = "warn"`},
	{`(?m)^  on_destroy += .*\n`, ``},
	{`(?m)^(resource "proxmox_vm" "\w+" \{)$`, "$1\n  on_destroy = { power_off = \"force\", timeout = \"5s\" }"},
}

// elsewhere finds remaining names of the cluster that the examples are written for.
var elsewhere = regexp.MustCompile(`"(?:pve\d|local|vmbr|shared)[^"]*"|\bname = "template"|vmid += \d.*`)

// Examples makes a case of each of the documentation's examples: applied, with an empty plan after it, and destroyed.
func Examples(configs map[string]string) ([]Case, error) {
	var cases []Case
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if simulatedOnly[name] != "" {
			continue
		}
		config := configs[name]
		computed := strings.HasPrefix(name, "functions/") // without any cluster
		for _, a := range adapted {
			if !computed {
				config = regexp.MustCompile(a.pattern).ReplaceAllString(config, a.replacement)
			}
		}
		if left := elsewhere.FindString(config); left != "" && !computed {
			return nil, fmt.Errorf("example %s names %s, which another cluster need not have: adapted in examples.go has to know it", name, left)
		}
		if name == "provider" {
			config += "\noutput \"nothing\" {\n  value = \"nothing\"\n}\n"
		}
		steps := append([]Step{{Config: config}}, exampleSteps[name]...)
		needs := exampleNeeds[name]
		if computed {
			needs = []Need{Functions}
		}
		cases = append(cases, Case{Name: "example " + strings.TrimPrefix(name, "guides/"), Needs: needs, Steps: steps})
	}
	for name := range exampleNeeds {
		if configs[name] == "" {
			return nil, fmt.Errorf("there is no example %s", name)
		}
	}
	return cases, nil
}
