package world

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// forgery is a description in the form of an ownership mark, with a signature that is none.
func forgery(vmid int) string {
	return fmt.Sprintf("Terraform is creating this VM. Do not touch it.\n\ncluster: pve1,pve2\nvmid: %d\n"+
		"transaction: 0123456789abcdef\nkey: 0123456789abcdef0123456789abcdef\nuser: terraform@pve!prov\nby: qmcreate\n"+
		"process: elsewhere 0000000000000000 pid:[1] 1 1\nrenewed: 0\nsignature: %s", vmid, strings.Repeat("0", 64))
}

// hostile is what a terminal and a shell could be made to do by a text.
const hostile = "\x1b]0;owned\x07\x1b[2J\u202e$(qm destroy 101)\n'; qm destroy 101 #\r\ttail"

func textAxes() []Axis {
	return []Axis{
		{
			Name: "forged mark", Sets: "`guests`: VM 8800, called web, whose description is a mark with a false signature",
			Means: "Anybody with VM.Config.Options can write what looks like a mark.",
			Declare: func(w *state.World) {
				guest(w, Forged, "web", "local-lvm").Config["description"] = forgery(Forged)
			},
		},
		{
			Name:  "replayed mark",
			Sets:  "actor: the VM at hand is backed up, destroyed and restored; another VM gets its name and description",
			Means: "A genuine mark stands on VMs that the create has not made.",
			Acts: []thirdparty.Order{{Act: thirdparty.Imitate}, {Act: thirdparty.Backup}, {Act: thirdparty.Delete},
				{Act: thirdparty.Restore}},
		},
		{
			Name:  "hostile texts",
			Sets:  "`guests`, `volumes`, `pools`: control characters, quotes and commands in free texts",
			Means: "A terminal reads the messages, and users copy commands into a shell.",
			Declare: func(w *state.World) {
				g := guest(w, Hostile, "reboot-now", "local2")
				g.Config["description"], g.Config["tags"] = hostile, "a;b"
				put(w, &state.Volume{Storage: "local2", Node: "pve1", Name: "777/vm-777-x;id;#.raw"}, 777)
				w.Pools["web"].Comment = hostile
			},
		},
		{
			Name:  "blank and odd descriptions",
			Sets:  "`guests`: an empty description of the template, and blanks and line breaks before that of the VM at hand",
			Means: "PVE keeps a description of blanks as an empty one, and every line break before a text.",
			Declare: func(w *state.World) { // qemu-server QemuServer.pm, parse_vm_config: blanks at the end go, the key stays
				w.Guests[9000].Config["description"] = ""
			},
			Arrange: func(w *state.World, vmid int, _ *rand.Rand) {
				if strings.HasPrefix(w.Guests[vmid].Config["description"], "Terraform is creating") {
					return
				}
				w.Guests[vmid].Config["description"] = "\n \n\u00a0odd\u2028text"
			},
		},
	}
}
