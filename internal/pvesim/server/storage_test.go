package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func TestDownload(t *testing.T) {
	image := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 24)...)
	image[28] = 0x40 // virtual size 1 GiB, big endian in bytes 24 to 31
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/disk.qcow2" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(image)
	}))
	t.Cleanup(web.Close)
	sum := sha256.Sum256(image)
	good := "&checksum-algorithm=sha256&checksum=" + hex.EncodeToString(sum[:])
	const path = "/storage/local/download-url"
	file := "content=import&filename=my%20disk.qcow2&url=" + web.URL + "/disk.qcow2"
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", path, "content=import&filename=a.qcow2&url=" + web.URL + "/none", "download failed: exit code 8"},
		{"", "POST", path, "content=iso&filename=a.iso&url=http://127.0.0.1:1/a.iso",
			"download failed: Connecting to 127.0.0.1:1... failed: Connection refused."},
		{"", "POST", path, "content=import&filename=a.txt&url=" + web.URL, "filename: invalid filename or wrong extension"},
		{"", "POST", "/storage/local-zfs/download-url", "content=iso&filename=a.iso&url=" + web.URL,
			"can't upload to storage type 'zfspool', not a file based storage!"},
		{"", "POST", "/storage/local2/download-url", "content=iso&filename=a.iso&url=" + web.URL,
			"storage 'local2' is not configured for content-type 'iso'"},
		{"", "POST", path, file + good[:len(good)-4] + "0000",
			"checksum mismatch: got '" + hex.EncodeToString(sum[:]) + "' != expect '" + hex.EncodeToString(sum[:])[:60] +
				"0000'"},
		{"", "POST", path, file + good, "OK"},
		{"", "POST", path, file + good, "OK"}, // already there, checked, untouched
		{"", "POST", path, file, "refusing to override existing file '/var/lib/vz/import/my_disk.qcow2'"},
		{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:0,import-from%3Dlocal:import/my_disk.qcow2", "OK"},
	})
	if c := g.config("100"); c["scsi0"] != "local-zfs:vm-100-disk-0,size=1G" {
		t.Errorf("imported disk: %v", c["scsi0"])
	}
}

func TestUpload(t *testing.T) {
	g := newRig(t, nil)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	_ = form.WriteField("content", "iso")
	part, _ := form.CreateFormFile("filename", "tiny.iso")
	_, _ = part.Write([]byte("CD001"))
	_ = form.Close()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://sim/api2/json/nodes/pve1/storage/local/upload", &body)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "PVEAPIToken=root@pam!tf="+g.w.Tokens["root@pam!tf"].Secret)
	q.Header.Set("Content-Type", form.FormDataContentType())
	r := g.send(q)
	upid, _ := r.body.Data.(string)
	if r.status != 200 || g.w.Tasks[upid] == nil || g.w.Tasks[upid].ExitStatus != "OK" ||
		g.w.Tasks[upid].Type != "imgcopy" {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if v := g.w.Volume("pve1", "local:iso/tiny.iso"); v == nil || v.Size != 5 {
		t.Errorf("stored: %+v", v)
	}
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&ide2=local:iso/tiny.iso,media%3Dcdrom", "OK"},
		{"", "DELETE", "/storage/local/content/local:iso/tiny.iso?delay=5", "", "OK"},
		{"", "POST", "/qemu/100/status/start", "", "volume 'local:iso/tiny.iso' does not exist"},
	})
}

func TestContentVisibility(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Roles["Little"] = []string{"Datastore.AllocateSpace"}
		w.ACL = append(w.ACL, state.ACLEntry{Path: "/storage/local-zfs", Subject: "root@pam!sep", Role: "Little",
			Propagate: true},
			state.ACLEntry{Path: "/storage/local", Subject: "root@pam!sep", Role: "Little", Propagate: true})
	})
	list := func(storage string) (names []string) {
		for _, item := range g.do("root@pam!sep", "GET", "/nodes/pve1/storage/"+storage+"/content", "").list() {
			names = append(names, item["volid"].(string))
		}
		return names
	}
	if got := list("local-zfs"); len(got) != 0 {
		t.Errorf("without Datastore.Audit and VM.Config.Disk it sees %v", got)
	}
	if got := strings.Join(list("local"), " "); got != "local:import/disk.qcow2 local:iso/debian.iso" {
		t.Errorf("files: %s", got)
	}
}

func TestAgentDelay(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu",
		"vmid=100&agent=1&net0=virtio%3DBC:24:11:00:00:77,bridge%3Dvmbr0&ipconfig0=ip%3D10.0.0.5/24&start=1", "OK"}})
	g.s.Do(func(w *state.World) { w.Guests[100].Agent = &state.Agent{DelaySeconds: 4} })
	g.steps([]step{
		{"", "GET", "/qemu/100/agent/network-get-interfaces", "", "QEMU guest agent is not running"},
		{"", "GET", "/qemu/100/agent/network-get-interfaces", "", "OK"},
	})
	r := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/agent/network-get-interfaces", "")
	if !strings.Contains(r.text, `"hardware-address":"bc:24:11:00:00:77"`) ||
		!strings.Contains(r.text, `"ip-address":"10.0.0.5"`) {
		t.Error(r.text)
	}
}

func TestHighAvailability(t *testing.T) {
	g := newRig(t, func(c *engine.Config) { c.World.HARound = -1 })
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&name=a", "OK"}})
	g.s.Do(func(w *state.World) { w.HA["vm:100"] = &state.HAResource{SID: "vm:100", State: "stopped"} })
	g.steps([]step{
		{"", "POST", "/qemu/100/status/start", "", "OK"},
		{"", "DELETE", "/qemu/100", "", "unable to remove VM 100 - used in HA resources and purge parameter not set."},
		{"", "POST", "/qemu/100/status/stop", "", "OK"},
		{"", "DELETE", "/qemu/100?purge=1", "", "OK"},
	})
	types := map[string]bool{}
	g.s.Do(func(w *state.World) {
		for _, task := range w.Tasks {
			types[task.Type] = true
		}
		if len(w.HA) != 0 {
			t.Error("the HA resource stayed")
		}
	})
	for _, typ := range []string{"hastart", "qmstart", "hastop", "qmstop"} {
		if !types[typ] {
			t.Errorf("no task %s", typ)
		}
	}
}

// TestHiddenFilesAreNotListed: a storage keeps a file whose name begins with a dot, and lists none (pve-storage
// Plugin.pm get_subdir_files).
func TestHiddenFilesAreNotListed(t *testing.T) {
	g := newRig(t, nil)
	for _, name := range []string{"iso/.hidden.iso", "iso/plain.iso"} {
		g.w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: name, Content: "iso", Format: "iso", Size: 1})
	}
	text := g.do("root@pam!tf", "GET", "/nodes/pve1/storage/local/content", "").text
	if strings.Contains(text, ".hidden.iso") || !strings.Contains(text, "plain.iso") {
		t.Errorf("listed: %s", text)
	}
}
