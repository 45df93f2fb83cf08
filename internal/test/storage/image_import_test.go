package storage_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestImageImport: a file of the name that its checksum gives is adopted without a request that writes, whatever made it, and
// stays when the resource goes. A file of another name is not adopted, nor one that is not there.
func TestImageImport(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("one")
	name := "debian-" + rig.SHA256(data)[:12] + ".qcow2"
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		for _, file := range []string{name, "plain.qcow2"} {
			world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/" + file, Content: "import", Format: "qcow2",
				Size: 1 << 30, Raw: data})
		}
	})
	w.Mark()
	s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage("https://example.org/debian.qcow2", rig.SHA256(data)))
	for id, words := range map[string][]string{
		"pve1/local:import/plain.qcow2":               {"twelve digits of its checksum"},
		"local:import/" + name:                        {"The id is node/volume"},
		"pve1/local:import/gone-0123456789ab.qcow2":   {"there is no local:import/gone-0123456789ab.qcow2 on node pve1"},
		"pve2/local:import/" + name:                   {"there is no local:import/" + name + " on node pve2"},
		"pve1/local-zfs:import/a-0123456789ab.qcow2":  {"Storage local-zfs is not for import content"},
		"pve1/local:snippets/a-0123456789ab.yaml":     {"The id is node/volume"},
		"pve7/local:import/gone-0123456789ab.qcow2":   {`Unknown node "pve7"`},
		"pve1/nowhere:import/gone-0123456789ab.qcow2": {"has no storage nowhere"},
	} {
		rig.MustSay(t, s.Import(t.Context(), "proxmox_image.disk", id), words...)
	}
	if err := s.Import(t.Context(), "proxmox_image.disk", "pve1/local:import/"+name); err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan(t.Context())
	if err != nil || strings.Contains(plan.String(), "replace") {
		t.Fatalf("planned %v, %v", plan, err)
	}
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "The file stays: "+
		"local:import/"+name) {
		t.Errorf("%v, %v", err, s.Diagnostics())
	}
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
	w.MustBeClean(t)
}

// TestImageOfThisApplyThatIsLargerThanItsDisk: the image is made by the same apply. Once it is there the VM is refused
// by its plan, before anything of it is made.
func TestImageOfThisApplyThatIsLargerThanItsDisk(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("an image")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data})
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(data))+rig.VMBlock(
		"node = \"pve1\"\nvmid = 300\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"8M\", "+
			"import_from = proxmox_image.disk.volume } }\n"))
	rig.MustSay(t, s.Run(t.Context()), "cannot shrink a disk to 8M")
	for _, op := range w.Sim.Ops() {
		if op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/qemu") {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
}

// madeOf is a VM with a disk of 2G made of the image.
const madeOf = `
resource "proxmox_vm" "web" {
  name        = "web"
  node        = "pve1"
  power_state = "stopped"
  disks       = { scsi0 = { storage = "local-zfs", size = "2G", import_from = proxmox_image.disk.volume } }
}
`

// asked counts the questions about an address.
func asked(w *rig.World) (n int) {
	for _, op := range w.Sim.Ops() {
		if strings.HasSuffix(op.Path, "/query-url-metadata") {
			n++
		}
	}
	return n
}

// TestPlanRefusesAnImageThatItsVMIsLostFor: an image is replaced with the VM that is made of it, and Terraform destroys the VM
// first. So the plan refuses an image or a VM that cannot be made. It is silent where the server of an address tells nothing.
func TestPlanRefusesAnImageThatItsVMIsLostFor(t *testing.T) {
	t.Parallel()
	first, next, large := rig.QCOW2("one"), rig.QCOW2("two"), rig.QCOW2("three")
	binary.BigEndian.PutUint64(large[24:], 8<<30)
	backed := rig.QCOW2("four")
	binary.BigEndian.PutUint64(backed[8:], 512)
	sparse := append([]byte("KDMV\x01\x00\x00\x00\x03\x00\x00\x00"), make([]byte, 1<<10)...)
	binary.LittleEndian.PutUint64(sparse[12:], 8<<30/512)
	page := []byte("\n<!DOCTYPE html><html>Not here</html>")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodHead && r.URL.Path == "/refused.qcow2":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == http.MethodHead && r.URL.Path == "/signed.qcow2":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/gone.qcow2":
			w.WriteHeader(http.StatusGone)
		case r.URL.Path == "/mistyped.qcow2":
			http.NotFound(w, r)
		case r.URL.Path == "/large.raw":
			w.Header().Set("Content-Length", fmt.Sprint(8<<30))
		case r.URL.Path == "/login.qcow2" && r.Method == http.MethodHead:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		default:
			_, _ = w.Write(map[bool][]byte{true: first, false: next}[r.URL.Path == "/first.qcow2"])
		}
	}))
	t.Cleanup(web.Close)
	dir := t.TempDir()
	local := func(name string, data []byte) string {
		at := filepath.Join(dir, name)
		rig.Must(t, os.WriteFile(at, data, 0o600))
		return rig.ImageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = %q", at))
	}
	for name, c := range map[string]struct{ to, refused, warned string }{
		"another release":        {to: rig.DownloadedImage(web.URL+"/next.qcow2", rig.SHA256(next))},
		"a server without HEAD":  {to: rig.DownloadedImage(web.URL+"/refused.qcow2", "")},
		"a signature for GET":    {to: rig.DownloadedImage(web.URL+"/signed.qcow2", "")},
		"no such file":           {to: rig.DownloadedImage(web.URL+"/mistyped.qcow2", ""), refused: "404 Not Found"},
		"withdrawn":              {to: rig.DownloadedImage(web.URL+"/gone.qcow2", ""), refused: "410 Gone"},
		"no server":              {to: rig.DownloadedImage("http://127.0.0.1:1/a.qcow2", ""), warned: "finds no file at the url"},
		"a web page":             {to: rig.DownloadedImage(web.URL+"/login.qcow2", ""), warned: "There is a web page at the url"},
		"a larger raw image":     {to: rig.DownloadedImage(web.URL+"/large.raw", ""), refused: "cannot shrink a disk to 2G"},
		"a larger local image":   {to: local("large.qcow2", large), refused: "cannot shrink a disk to 2G"},
		"a larger VMDK":          {to: local("large.vmdk", sparse), refused: "cannot shrink a disk to 2G"},
		"a larger local raw one": {to: local("large.raw", bytes.Repeat([]byte("x"), 3<<20)) + strings.Replace(madeOf, "2G", "2M", 1), refused: "cannot shrink a disk to 2M"},
		"a local image":          {to: local("next.qcow2", next)},
		"a page as qcow2":        {to: local("page.qcow2", page), refused: "is not in the format qcow2"},
		"raw as qcow2":           {to: local("raw.qcow2", make([]byte, 1<<10)), refused: "is not in the format qcow2"},
		"qcow2 as VMDK":          {to: local("qcow2.vmdk", next), refused: "is not in the format vmdk"},
		"a backing file":         {to: local("backed.qcow2", backed), refused: "has a backing file"},
		"qcow2 as raw":           {to: local("qcow2.raw", next), warned: "may be of another format"},
		"a page as raw":          {to: local("page.raw", page), warned: "may be of another format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage(web.URL+"/first.qcow2", "")+madeOf)
			rig.Must(t, s.Converge(t.Context()))
			if !strings.Contains(c.to, "proxmox_vm") {
				c.to += madeOf
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, c.to)
			w.Sim.ResetOps()
			plan, err := s.Plan(t.Context())
			said := fmt.Sprint(s.Diagnostics())
			switch {
			case c.refused != "":
				rig.MustSay(t, err, c.refused)
				return
			case err != nil:
				t.Fatal(err)
			case !strings.Contains(said, c.warned):
				t.Errorf("it warns of %s", said)
			}
			if n, want := asked(w), strings.Count(c.to, "url ="); n != want {
				t.Errorf("%d questions about an address", n)
			}
			if c.warned == "" {
				rig.Must(t, s.Apply(t.Context(), plan))
			}
		})
	}
}

// TestNewImageThatNoServerHas: a new image takes nothing with it, and another resource of the run may put its file there. So its
// plan warns, and the plan within the apply is no error. Nothing is asked about a file that is on the storage.
func TestNewImageThatNoServerHas(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	web := rig.ServeFiles(t, files)
	w := rig.NewWorld(t)
	data := rig.QCOW2("late")
	s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage(web+"/late.qcow2", rig.SHA256(data)))
	plan, err := s.Plan(t.Context())
	rig.Must(t, err)
	rig.MustSayAll(t, fmt.Sprint(s.Diagnostics()), "Node pve1 finds no file at the url", "404 Not Found")
	files["/late.qcow2"] = data
	rig.Must(t, s.Apply(t.Context(), plan))
	w.Sim.ResetOps()
	second := strings.Replace(rig.DownloadedImage(web+"/late.qcow2", rig.SHA256(data)), "disk", "second", 1)
	w.Reconfigure(t, s, rig.TokenNoSSH, rig.DownloadedImage(web+"/late.qcow2", rig.SHA256(data))+second)
	rig.Must(t, s.Converge(t.Context()))
	if n := asked(w); n != 0 {
		t.Errorf("%d questions about a file that is there", n)
	}
}

// TestImageAtAnotherAddress: the checksum tells the content. Where it stays the same, the file in state is the wanted one whatever
// its source is called, so neither it nor its VM is replaced. The checksum may also have been forgotten, which the plan says.
func TestImageAtAnotherAddress(t *testing.T) {
	t.Parallel()
	data := pvesim.StandIn()
	local := filepath.Join(t.TempDir(), "built.qcow2")
	rig.Must(t, os.WriteFile(local, data, 0o600))
	sum := rig.SHA256(data)
	paths := map[string][]byte{}
	for _, path := range []string{"/debian-12.qcow2", "/pub/debian-12.qcow2", "/debian-13.qcow2", "/debian-13.raw"} {
		paths[path] = data
	}
	web := rig.ServeFiles(t, paths)
	for name, c := range map[string]struct {
		to           string
		warns, stays bool
	}{
		"a mirror":             {rig.DownloadedImage(web+"/pub/debian-12.qcow2", sum), false, true},
		"another name":         {rig.DownloadedImage(web+"/debian-13.qcow2", sum), true, true},
		"a file of here":       {rig.ImageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = %q", local)), false, true},
		"another extension":    {rig.DownloadedImage(web+"/debian-13.raw", sum), false, false},
		"another file_name":    {rig.DownloadedImage(web+"/debian-12.qcow2", sum, `file_name = "new.qcow2"`), false, false},
		"another checksum":     {rig.DownloadedImage(web+"/debian-13.qcow2", strings.Repeat("0", 64)), false, false},
		"without the checksum": {rig.DownloadedImage(web+"/debian-12.qcow2", ""), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage(web+"/debian-12.qcow2", sum)+madeOf)
			rig.Must(t, s.Converge(t.Context()))
			id, volume := rig.GuestsNamed(w)["web"], rig.ImageAttr(s, "volume")
			w.Reconfigure(t, s, rig.TokenNoSSH, c.to+madeOf)
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := fmt.Sprint(s.Diagnostics())
			if replaced := strings.Contains(plan.String(), "replace"); replaced == c.stays {
				t.Errorf("replaced: %t: %v", replaced, plan)
			}
			if warned := strings.Contains(said, "The image stays as it is"); warned != c.warns {
				t.Errorf("warned: %t: %s", warned, said)
			}
			if !c.stays {
				return
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			rig.Must(t, s.Converge(t.Context()))
			if rig.GuestsNamed(w)["web"] != id || rig.ImageAttr(s, "volume") != volume {
				t.Errorf("VM %d has become %d, %s %s", id, rig.GuestsNamed(w)["web"], volume, rig.ImageAttr(s, "volume"))
			}
		})
	}
}
