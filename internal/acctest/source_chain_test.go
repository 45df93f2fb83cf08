package acctest_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

// TestSweepSourceChain fails everything that is written on the way from an image that the node downloads to the VM whose disk is made of it:
// by its volume, and, of ISO content, over SSH. What is left then is in state or was said, the next apply brings about the whole, and the
// destroy leaves nothing. DESTROY_ALL has all of it fail with both.
func TestSweepSourceChain(t *testing.T) {
	t.Parallel()
	data := qcow2("an image")
	url := served(t, map[string][]byte{"/debian.qcow2": data, "/debian.img": data})
	web := strings.Replace(vmBlock("node = \"pve1\"\nvmid = 300\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"4G\", "+
		"import_from = proxmox_image.disk.volume } }\n"), `"x"`, `"web"`, 1)
	for n, c := range []imageCase{
		{name: "by its volume", config: downloaded(url+"/debian.qcow2", sha256Of(data)) + web, volume: "import/debian-" + sha256Of(data)[:12] + ".qcow2", data: data},
		{name: "over SSH", config: downloaded(url+"/debian.img", sha256Of(data), `content = "iso"`) + web, volume: "iso/debian-" + sha256Of(data)[:12] + ".img", data: data},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sw := newImageSweep(t, acctest.TokenSSH, c)
			sw.reset()
			if err := sw.s.Run(t.Context()); err != nil {
				t.Fatal(sw.said(err))
			}
			nth, writes := map[string]int{}, n
			for _, op := range sw.w.Sim.Ops() {
				nth[opName(op)]++
				if op.Method == http.MethodGet {
					continue
				}
				if writes++; writes%2 == 0 && os.Getenv("DESTROY_ALL") == "" {
					continue
				}
				for _, phase := range []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial} {
					sw.chain(op, nth[opName(op)], phase)
				}
			}
			t.Logf("%d effective cases, %d of them done at once", sw.effective, sw.made)
			if sw.effective < 5 {
				t.Error("want more of them")
			}
		})
	}
}

// chain fails one operation of an apply in one way.
func (sw *imageSweep) chain(op pvesim.Op, nth int, phase fault.Phase) {
	t := sw.t
	t.Helper()
	sw.reset(fault.Rule{Match: fault.Match{Method: op.Method, Path: op.Path, Nth: nth}, Phase: phase})
	err := sw.s.Run(t.Context())
	if sw.w.Sim.FaultsFired() == 0 {
		return
	}
	sw.effective++
	sw.settle()
	what := string(phase) + " of " + opName(op)
	said := ""
	if err == nil {
		sw.made++
	} else {
		said = sw.said(err)
		inState := strings.Join(sw.s.Addresses(), " ")
		for _, line := range sw.w.Leaks() {
			file, vm := strings.Contains(line, sw.volume), strings.Contains(line, "300")
			named := file && strings.Contains(inState, "proxmox_image.disk") || vm && strings.Contains(inState, "proxmox_vm.web")
			if !named && !sw.isNamed(line, said) && !(vm && strings.Contains(said, "300")) {
				t.Errorf("%s: neither in state nor named: %s\n%s", what, line, said)
			}
		}
		for _, m := range printed.FindAllStringSubmatch(said, -1) {
			words := strings.Fields(strings.ReplaceAll(m[1]+m[3], "'", ""))
			_, _ = sw.root.Run(t.Context(), m[2]+m[4], words...) // what is left after it is looked at below
		}
	}
	if err := sw.s.Converge(t.Context()); err != nil {
		t.Errorf("%s: the next apply says %v\nat first: %s", what, err, said)
		return
	}
	if err := sw.s.Destroy(t.Context()); err != nil {
		t.Errorf("%s: the destroy says %v", what, err)
	}
	stays := strings.Contains(sw.s.Diagnostics().String(), "The file stays: local:"+sw.volume) // whose answer was lost, so that it may be another's
	for _, line := range sw.w.Leaks() {
		if stays && strings.Contains(line, sw.volume) {
			continue
		}
		t.Errorf("%s: left: %s\nat first: %s", what, line, said)
	}
}
