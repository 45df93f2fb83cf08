package faults_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// TestSweepSourceChain fails everything that is written on the way from an image that the node downloads to the VM whose disk is made of it:
// by its volume, and, of ISO content, over SSH. Every leftover is in state or was named, the next apply completes the
// configuration, and the destroy leaves nothing. The whole fails every write of both ways.
func TestSweepSourceChain(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("an image")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data, "/debian.img": data})
	web := strings.Replace(rig.VMBlock("node = \"pve1\"\nvmid = 300\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"4G\", "+
		"import_from = proxmox_image.disk.volume } }\n"), `"x"`, `"web"`, 1)
	for n, c := range []rig.ImageCase{
		{Name: "by its volume", Config: rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(data)) + web, Volume: "import/debian-" + rig.SHA256(data)[:12] + ".qcow2", Data: data},
		{Name: "over SSH", Config: rig.DownloadedImage(url+"/debian.img", rig.SHA256(data), `content = "iso"`) + web, Volume: "iso/debian-" + rig.SHA256(data)[:12] + ".img", Data: data},
	} {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			sw := newImageSweep(t, rig.TokenSSH, c)
			sw.Reset()
			if err := sw.Session.Run(t.Context()); err != nil {
				t.Fatal(sw.Said(err))
			}
			nth, writes := map[string]int{}, 2*n
			for _, op := range sw.World.Sim.Ops() {
				nth[engine.OpName(op)]++
				if op.Method == http.MethodGet {
					continue
				}
				if writes++; writes%share.Of(4) != 0 {
					continue
				}
				for _, phase := range []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial} {
					sw.Chain(op, nth[engine.OpName(op)], phase)
				}
			}
			t.Logf("%d effective cases, %d of them done at once", sw.Effective, sw.Made)
			if sw.Effective < 3 {
				t.Error("want more of them")
			}
		})
	}
}
