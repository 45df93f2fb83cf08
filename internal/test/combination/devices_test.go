package combination_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// drawCloudInit draws a cloud-init drive that comes, leaves, moves, or changes its data.
func drawCloudInit(r *rand.Rand, _ *change) *part {
	before, after := two(r, "", `storage = "local-zfs", user = "ops"`, `storage = "local-lvm", user = "ops"`, `storage = "shared-nfs", user = "other"`,
		`storage = "local-zfs", slot = "scsi7", user = "ops"`, `storage = "local-zfs", slot = "sata3", user = "ops"`)
	drive := func(values string) string {
		if values == "" {
			return ""
		}
		return "cloud_init = { " + values + " }\n"
	}
	p := arguments("cloud-init", drive(before), drive(after))
	p.made = func(b *bench, w *state.World, config map[string]string) string {
		var drives []string
		for option, value := range config {
			if strings.Contains(value, "-cloudinit") && strings.Contains(value, "media=cdrom") {
				drives = append(drives, option+"="+value)
			}
		}
		if after == "" {
			return "" // without the argument the drive is let be
		}
		storage, rest, _ := strings.Cut(strings.TrimPrefix(after, `storage = "`), `"`)
		if len(drives) != 1 || !strings.Contains(drives[0], "="+storage+":") || strings.Contains(rest, "slot") && !strings.Contains(rest, `"`+drives[0][:5]) {
			return fmt.Sprintf("the cloud-init drives are %q", drives)
		}
		if config["ciuser"] == "" || !strings.Contains(after, `"`+config["ciuser"]+`"`) {
			return "the user of cloud-init is " + config["ciuser"]
		}
		return ""
	}
	return p
}

// drawMedium draws a drive whose medium is another one's file, one of the configuration, or none.
func drawMedium(r *rand.Rand, _ *change) *part {
	media := map[string]string{"empty": `"none"`, "theirs": `"local:iso/debian.iso"`, "own": "proxmox_cloud_init_iso.web.volume", "own, changed": "proxmox_cloud_init_iso.web.volume"}
	before, after := two(r, "", "empty", "theirs", "own", "own", "own, changed")
	slot, to := two(r, "ide0", "ide0", "sata5")
	of := func(medium, slot string) (p piece) {
		if medium == "" {
			return p
		}
		p.arguments = fmt.Sprintf("cdroms = { %s = { file = %s } }\n", slot, media[medium])
		if strings.HasPrefix(medium, "own") {
			p.blocks = rig.CloudInitISOBlock(fmt.Sprintf("hostname: h%d", len(medium)))
		}
		return p
	}
	then := of(after, to)
	if then.blocks == "" && r.IntN(4) > 0 { // Terraform destroys a file before it changes the VM that does not name it any more
		then.blocks = of(before, slot).blocks
	}
	return &part{name: fmt.Sprintf("a drive: %s in %s becomes %s in %s", before, slot, after, to), before: of(before, slot), after: constant(then),
		holds: func(b *bench, w *state.World) string {
			if w.Volume("pve1", "local:iso/debian.iso") == nil || w.Volume("pve2", "local:iso/debian.iso") == nil {
				return "the ISO file of a third party is gone"
			}
			return ""
		},
		made: func(b *bench, w *state.World, config map[string]string) string {
			switch {
			case after == "":
				return ""
			case after == "empty":
				return has(config, to, "none,media=cdrom")
			case after == "theirs":
				return has(config, to, "local:iso/debian.iso,media=cdrom")
			}
			volume, _, _ := strings.Cut(config[to], ",")
			if g := w.Guests[vmid]; g != nil && (!strings.HasPrefix(volume, "local:iso/web-1-") || w.Volume(g.Node, volume) == nil) {
				return fmt.Sprintf("the own medium is %q, and no such file is there", config[to])
			}
			return ""
		}}
}

// drawNetworks draws network devices that come, leave, and change. One that stays keeps its address.
func drawNetworks(r *rand.Rand, _ *change) *part {
	kinds := []string{"", `bridge = "vmbr0"`, `bridge = "vmbr1"`, `bridge = "vmbr1", model = "e1000"`, `bridge = "vmbr0", macaddr = "BC:24:11:00:00:02"`, `bridge = "vmbr0", tag = 5, firewall = true`}
	var before, after [2]string
	for n := range before {
		before[n], after[n] = two(r, kinds...)
	}
	if before[1] == after[0] || after[1] == after[0] || before[0] == after[1] {
		after[1] = "" // no address twice
	}
	if before[0] == before[1] {
		before[1] = ""
	}
	of := func(list [2]string) string {
		text := ""
		for n, values := range list {
			if values != "" {
				text += fmt.Sprintf("net%d = { %s }, ", n, values)
			}
		}
		return "networks = { " + text + "}\n"
	}
	addresses := map[string]string{}
	p := arguments("networks", of(before), of(after))
	p.prepare = func(b *bench, w *state.World) {
		for n := range before {
			addresses[fmt.Sprintf("net%d", n)] = addressOf(w.Guests[vmid].Config[fmt.Sprintf("net%d", n)])
		}
	}
	p.made = func(b *bench, w *state.World, config map[string]string) string {
		for n, values := range after {
			option := fmt.Sprintf("net%d", n)
			if values == "" {
				if before[n] != "" && config[option] != "" {
					return option + " is still there: " + config[option]
				}
				continue
			}
			if wrong := has(config, option, "bridge="+strings.Split(values, `"`)[1]); wrong != "" {
				return wrong
			}
			fixed := strings.Contains(values, "macaddr")
			if fixed && addressOf(config[option]) != "BC:24:11:00:00:02" || !fixed && before[n] != "" && !strings.Contains(before[n], "macaddr") && addressOf(config[option]) != addresses[option] {
				return fmt.Sprintf("%s had the address %s, and is %s", option, addresses[option], config[option])
			}
		}
		return ""
	}
	return p
}

func addressOf(value string) string {
	first, _, _ := strings.Cut(value, ",")
	_, address, _ := strings.Cut(first, "=")
	return address
}

// drawNotes draws a description, tags, and a firewall that change. Tags of others stay.
func drawNotes(r *rand.Rand, _ *change) *part {
	notes, noted := two(r, "description = \"old\"\n", "description = \"new\"\n")
	tags, tagged := two(r, "", "tags = [\"one\"]\n", "tags = [\"two\", \"three\"]\n")
	walls := []string{"firewall = { enabled = true, rules = [{ type = \"in\", action = \"ACCEPT\", macro = \"SSH\" }] }\n",
		"firewall = { enabled = true, policy_in = \"DROP\", rules = [{ type = \"in\", action = \"ACCEPT\", macro = \"SSH\" }, { type = \"out\", action = \"DROP\" }] }\n", "firewall = { enabled = false, rules = [] }\n"}
	wall, walled := two(r, append(walls, "")...)
	if wall == "" && strings.Contains(walled, "[]") {
		wall = walled
	}
	p := arguments("notes", notes+tags+wall, noted+tagged+walled)
	p.made = func(b *bench, w *state.World, config map[string]string) string {
		if config["description"] != strings.Split(noted, `"`)[1] && strings.TrimSpace(config["description"]) != strings.Split(noted, `"`)[1] {
			return "the description is " + config["description"]
		}
		for n, tag := range strings.Split(tagged, `"`) {
			if n%2 == 1 && !slices.Contains(strings.FieldsFunc(config["tags"], func(c rune) bool { return c == ';' || c == ',' }), tag) {
				return "the tags are " + config["tags"]
			}
		}
		if f := w.Firewall[vmid]; walled != "" && strings.Count(walled, "type =") > 0 && (f == nil || len(f.Rules) != strings.Count(walled, "type =")) {
			return fmt.Sprintf("the firewall is %+v", f)
		}
		return ""
	}
	return p
}

// drawTemplate draws a conversion to a template.
func drawTemplate(r *rand.Rand, c *change) *part {
	if r.IntN(2) == 0 || c.held[1] != "" { // PVE renames a template's disks
		return nil
	}
	c.power = "power_state = \"stopped\"\n"
	p := arguments("template", "", "template = true\n")
	p.made = func(_ *bench, _ *state.World, config map[string]string) string { return has(config, "template", "1") }
	return p
}

// drawWaiting draws what a third party has left to the guest's next start: sockets, an option of a disk, a disk, the removal of one.
func drawWaiting(r *rand.Rand, c *change) *part {
	if !c.running {
		return nil
	}
	kind := []string{"sockets", "an option of a disk", "a disk", "the removal of a disk"}[r.IntN(4)]
	d := c.disks[r.IntN(len(c.disks))]
	p := &part{name: fmt.Sprintf("a third party has %s wait (%s)", kind, d.label), after: constant(piece{})}
	if kind == "the removal of a disk" {
		c.leaving = d.label
	}
	p.prepare = func(b *bench, w *state.World) {
		g := w.Guests[vmid]
		if g.Pending == nil {
			g.Pending = map[string]string{}
		}
		if g.Deletes == nil {
			g.Deletes = map[string]int{}
		}
		switch kind {
		case "sockets":
			g.Pending["sockets"] = "2"
		case "an option of a disk":
			if g.Deletes[d.slot] == 0 && g.Config[d.slot] != "" && !strings.HasPrefix(d.slot, "virtio") {
				g.Pending[d.slot] = g.Config[d.slot] + ",ssd=1"
			}
		case "a disk":
			w.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-400-disk-77", Content: "images", VMID: vmid, Format: "raw", Size: 1 << 30, Data: "waits"})
			g.Pending["virtio12"] = "local-lvm:vm-400-disk-77,size=1G"
		default:
			g.Deletes[d.slot] = 1
		}
	}
	p.holds = func(b *bench, w *state.World) string {
		g := w.Guests[vmid]
		switch {
		case g == nil:
		case kind == "sockets" && g.NextConfig()["sockets"] != "2" && !strings.Contains(b.said+b.told, "sockets"):
			return "the sockets that a third party has set are gone"
		case kind == "a disk" && (len(dataOf(w)["waits"]) == 0 || g.NextConfig()["virtio12"] == "") && !strings.Contains(b.said+b.told, "virtio12"):
			return "the disk that a third party has added is gone"
		}
		return ""
	}
	return p
}
