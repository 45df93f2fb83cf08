package docs_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestImageGuide applies and destroys the further configurations of the guide: an image that is given another name, one for each node.
func TestImageGuide(t *testing.T) {
	t.Parallel()
	all := blocksOf(t, "../../../templates/guides/cloud-image.md.tmpl", "proxmox_image")
	if len(all) != 2 {
		t.Fatalf("%d configurations", len(all))
	}
	for _, config := range all {
		w := rig.ExampleWorld(t)
		s := w.Session(t, rig.TokenNoSSH, config)
		rig.Must(t, s.Converge(t.Context()))
		nodes := 1
		if strings.Contains(config, "for_each") {
			nodes = 2
		}
		if made := len(w.Leaks()); made != nodes {
			t.Errorf("%d files on %d nodes: %v", made, nodes, w.Leaks())
		}
		rig.Must(t, s.Destroy(t.Context()))
		w.MustBeClean(t)
	}
}

// TestOrderOfAnImageAndItsVM holds the table of the guide "changes" to Terraform: where the new image fails, only
// create_before_destroy in the block of the VM keeps the VM. A plan that knows of the failure keeps it in any case.
func TestOrderOfAnImageAndItsVM(t *testing.T) {
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/debian-12.qcow2":
			_, _ = w.Write(rig.QCOW2("release 12"))
		case r.URL.Path == "/untold.qcow2" && r.Method == http.MethodHead:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	const first = "lifecycle { create_before_destroy = true }\n"
	for name, c := range map[string]struct {
		image, vm, next string
		stays           bool
	}{
		"in no block":              {"", "", "/untold.qcow2", false},
		"in the block of an image": {first, "", "/untold.qcow2", false},
		"in the block of the VM":   {"", first, "/untold.qcow2", true},
		"refused by the plan":      {"", "", "/debian13.qcow2", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t, pvesim.Options{RealNetwork: true})
			ws := rig.NewWorkspace(t, w, rig.DevOverride(t, t.TempDir()), nil)
			write := func(path string) {
				ws.Write(t, "main.tf", "terraform {\n  required_providers {\n    proxmox = { source = \"terraform-proxmox/proxmox\" }\n"+
					"  }\n}\n"+rig.DownloadedImage(web.URL+path, "", c.image)+"resource \"proxmox_vm\" \"web\" {\nname = \"web\"\n"+
					"node = \"pve1\"\npower_state = \"stopped\"\n"+c.vm+"disks = { scsi0 = { storage = \"local-zfs\", size = \"2G\", "+
					"import_from = proxmox_image.disk.volume } }\n}\n")
			}
			write("/debian-12.qcow2")
			ws.Run(t, "apply", "-auto-approve")
			id := rig.GuestsNamed(w)["web"]
			write(c.next)
			said, err := ws.Try(t, "apply", "-auto-approve")
			if err == nil {
				t.Fatalf("there is no such file: %s", said)
			}
			if stays := rig.GuestsNamed(w)["web"] == id; stays != c.stays {
				t.Errorf("VM %d stays: %t: %s", id, stays, said)
			}
		})
	}
}
