package rig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// MarkOf is the description of a VM that a create of the simulated cluster has not committed.
func MarkOf(vmid int) string {
	return ownership.Mark{Cluster: "pve1,pve2", VMID: vmid, Saga: "0123456789abcdef", Key: guest.NoKey, User: "terraform@pve!prov",
		By: "qmcreate", Signature: strings.Repeat("0", 64)}.String()
}

// Resign changes the ownership mark that a text is, and signs it as the identity that it names. Any other text stays.
func Resign(cred pvesim.Credentials, text string, change func(*ownership.Mark)) string {
	mark, ok := ownership.Parse(text)
	if !ok {
		return text
	}
	config := pve.Config{Endpoint: "https://nowhere", Username: cred.RootUsername, Password: cred.RootPassword}
	for _, token := range []string{cred.RootToken, cred.Token, cred.TokenNoAllocate, cred.ReadOnlyToken} {
		if strings.HasPrefix(token, mark.User+"=") {
			config = pve.Config{Endpoint: config.Endpoint, APIToken: token}
		}
	}
	api, err := pve.New(config)
	if err != nil {
		panic(err) // the simulator's credentials are well formed
	}
	defer api.Close()
	change(&mark)
	return mark.Sign(guest.MarkKey(api)).String()
}

// OfADeadProcess makes a mark that of another process of this machine, which is dead.
func OfADeadProcess(mark *ownership.Mark) {
	mark.Process = mark.Process[:strings.LastIndex(mark.Process, " ")+1] + "1"
}

// Attributes for the body of NodeVMBlock.
const (
	ThreeDisks = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "2G", backup = false }, scsi2 = { storage = "local-zfs", size = "3G" } }
`
	Stopped = "power_state = \"stopped\"\n"
)

// GuardedVM is VM 400, whose place third parties take on the server.
const GuardedVM = `
resource "proxmox_vm" "mine" {
  name   = "mine"
  vmid   = 400
  node   = "pve1"
  memory = { size = 1024 }
  disks  = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`

// OtherUUID is the UUID of a third party's VM.
const OtherUUID = "11111111-2222-3333-4444-555555555555"

// VMBlock returns VM 400 with the attributes of body.
func VMBlock(body string) string {
	return "resource \"proxmox_vm\" \"x\" {\n" + body + "\n}\n"
}

// NodeVMBlock returns VM 400 on pve1 with the attributes of body.
func NodeVMBlock(body string) string {
	return VMBlock("name = \"x\"\nvmid = 400\nnode = \"pve1\"\n" + body)
}

// OneDisk is the attribute of a VM with one disk of one gigabyte.
const OneDisk = `disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`

// GuestOf returns a copy of a guest, the zero value if there is none.
func GuestOf(w *World, vmid int) (guest state.Guest) {
	w.Change(func(world *state.World) {
		if g := world.Guests[vmid]; g != nil {
			guest = *g
		}
	})
	return guest
}

// MigrateByHand migrates a VM as a person at the console would.
func MigrateByHand(t *testing.T, w *World, vmid int, node string) {
	t.Helper()
	c := APIClient(t, w)
	at := GuestOf(w, vmid)
	params := map[string]string{"target": node, "with-local-disks": "1"}
	if at.Running != nil {
		params["online"] = "1"
	}
	upid, err := c.QEMU(at.Node, vmid).Migrate(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tasks().Wait(t.Context(), upid); err != nil {
		t.Fatal(err)
	}
}

// APIClient is root@pam at the same cluster.
func APIClient(t *testing.T, w *World) *pve.Client {
	t.Helper()
	cred := w.Sim.Credentials()
	c, err := pve.New(pve.Config{Endpoint: w.Sim.Endpoint(), CACertificate: w.Sim.CAPEM(), DialContext: w.Sim.DialContext,
		Username: cred.RootUsername, Password: cred.RootPassword, Clock: clock.Client{Cluster: w.Sim.World().Clock}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// RunTask sends a request as an administrator would, and awaits its task.
func RunTask(t *testing.T, w *World, path, params string) pve.TaskResult {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.Sim.Endpoint()+"/api2/json"+path,
		strings.NewReader(params))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "PVEAPIToken="+w.Sim.Credentials().RootToken)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.Sim.CAPEM()))
	transport := &http.Transport{DialContext: w.Sim.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var body struct{ Data string }
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || body.Data == "" {
		t.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
	api := APIClient(t, w)
	result, err := api.Tasks().Wait(t.Context(), pve.UPID(body.Data))
	if err != nil {
		t.Fatal(err)
	}
	if result.Log, err = api.Tasks().Log(t.Context(), pve.UPID(body.Data), 500); err != nil {
		t.Fatal(err)
	}
	return result
}

// Invoke plans an action and carries it out.
func Invoke(t *testing.T, s *terraformtest.Session, typ, config string, between func()) (progress string, err error) {
	told, err := s.Invoke(t.Context(), "action."+typ+".it", between, fmt.Sprintf("action %q \"it\" {\nconfig {\n%s\n}\n}\n", typ, config))
	return strings.Join(told, "\n"), err
}

// PoweredVM is a VM of id 400 with further attributes.
func PoweredVM(more string) string {
	return VMBlock("vmid = 400\nnode = \"pve1\"\ndescription = \"one\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n" + more)
}

// Pointer returns a pointer to v.
func Pointer[T any](v T) *T { return &v }

// WebBackup is the volume of state.WebBackup.
const WebBackup = "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst"

// GuestCount returns the number of guests in the cluster.
func GuestCount(w *World) (n int) {
	w.Change(func(world *state.World) { n = len(world.Guests) })
	return n
}

// MakeByNextID makes VMs as a third party does, each under the next free id, one each few seconds of the cluster's time.
func (w *World) MakeByNextID(ctx context.Context, most int) (ids []int) {
	clock := clock.Client{Cluster: w.Sim.World().Clock}
	for len(ids) < most && clock.Sleep(ctx, 300*time.Millisecond) == nil {
		w.Change(func(world *state.World) {
			id := 100
			for world.Guests[id] != nil {
				id++
			}
			world.Guests[id] = &state.Guest{VMID: id, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs"}}
			ids = append(ids, id)
		})
	}
	return ids
}

// ScratchVM is a VM that is made from scratch, with a bit of everything.
const ScratchVM = `
resource "proxmox_vm" "scratch" {
  node        = "pve1"
  vmid        = 201
  name        = "scratch"
  description = "made from scratch"
  tags        = ["one", "two"]
  pool        = "web"
  ostype      = "l26"
  scsihw      = "virtio-scsi-single"
  machine     = "q35"
  bios        = "ovmf"
  cpu         = { type = "host", cores = 2 }
  memory      = { size = 2048 }
  boot_order  = ["scsi0", "net0"]
  disks = {
    scsi0 = { storage = "local-zfs", size = "4G", discard = true, ssd = true }
    scsi1 = { storage = "local-lvm", size = "8G" }
  }
  cdroms     = { ide0 = { file = "local:iso/debian.iso" } }
  efi_disk   = { storage = "local-zfs", type = "4m", pre_enrolled_keys = true }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0", firewall = true } }
  cloud_init = {
    storage   = "local-zfs"
    user      = "ops"
    addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
  }
}
`

// CloneVM is a full clone of template 9000 with changes.
const CloneVM = `
resource "proxmox_vm" "clone" {
  node     = "pve1"
  vmid     = 202
  name     = "clone"
  clone    = { vmid = 9000, full = true }
  protection = false # the template's is inherited otherwise
  memory   = { size = 4096 }
  disks    = { scsi0 = { size = "10G" } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init = {
    user      = "ops"
    addresses = { net0 = { ipv4 = "10.0.0.6/24", gateway4 = "10.0.0.1" } }
  }
}
`
