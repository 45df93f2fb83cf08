package file

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
)

// onNodes is root on the node of a simulated cluster.
func onNodes(t *testing.T, sim *pvesim.Sim) *ssh.Shell {
	t.Helper()
	_, port, _ := net.SplitHostPort(sim.SSHAddress())
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	shell, err := ssh.New(ssh.Config{Username: "root", PrivateKeyPEM: sim.SSHPrivateKeyPEM(),
		KnownHosts: sim.SSHKnownHosts(), Dial: sim.SSHDial, Nodes: map[string]ssh.Address{"pve1": {Host: "pve1",
			Port: number}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shell.Close() })
	return shell
}

// addressCase is a file whose resource gets another address.
type addressCase struct {
	spec Spec
	sent string // a request of the create
	free func(ctx context.Context, files *Files, made File) error
}

// TestFileOfAResourceThatGetsAnotherAddress: where a resource gets another address without a moved block, Terraform
// destroys the old object and creates the new one at the same time. The new object finds the file there, also by
// another name of its storage. The destroy, which has begun while that create is at work, leaves it the file.
func TestFileOfAResourceThatGetsAnotherAddress(t *testing.T) {
	data := []byte("an image of some bytes")
	image := Of("disc", data)
	text := Of("web.yaml", []byte("#cloud-config\n"))
	for _, c := range []addressCase{
		{spec: Spec{Node: "pve1", Storage: "local", Content: ISO, URL: "http://mirror.example/disc.iso",
			Checksum: image.Checksum, Name: "disc-" + image.Checksum.Value[:12] + ".iso"}, sent: "/download-url",
			free: func(ctx context.Context, files *Files, made File) error { return files.Delete(ctx, made.MadeFile) }},
		{spec: Spec{Node: "pve1", Storage: "local", Content: Snippets, Name: "web.yaml", Source: text},
			sent: "/nodes/pve1/storage",
			free: func(ctx context.Context, files *Files, made File) error {
				spec := Spec{Node: made.Node, Storage: "local", Content: Snippets, Name: "web.yaml", Source: text}
				return files.DeleteSnippet(ctx, spec, text.Checksum.Value)
			}},
	} {
		c.getsAnother(t, "local", data)
		c.getsAnother(t, "again", data)
	}
}

func (c addressCase) getsAnother(t *testing.T, storage string, data []byte) {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}, Web: web(data)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := sim.World()
	w.Lock()
	twin := *w.Storages["local"]
	twin.ID, twin.Same = "again", "local"
	w.Storages[twin.ID] = &twin
	w.Unlock()
	here, answered := clock.Client{Cluster: sim.World().Clock}, func() {}
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(),
		DialTLSContext: sim.DialTLSContext, Clock: here, APIToken: sim.Credentials().Token,
		Trace: func(_ context.Context, message string, fields map[string]string) {
			if message == "PVE request" && strings.HasSuffix(fields["path"], c.sent) {
				answered()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	jobs, shell := request.New(api, here), onNodes(t, sim)
	files := New(jobs, destroy.New(jobs, guest.New(jobs), shell).Guard, shell)
	made, _, err := files.Create(t.Context(), c.spec)
	if err != nil || !made.Made {
		t.Fatalf("%s was not made: %v", c.spec.Content, err)
	}
	ended := make(chan error, 1)
	answered = sync.OnceFunc(func() { go func() { ended <- c.free(t.Context(), files, made) }() })
	c.spec.Storage = storage
	again, _, err := files.Create(t.Context(), c.spec)
	if err != nil || again.Made {
		t.Fatalf("%s was made again (%t): %v", c.spec.Content, again.Made, err)
	}
	answered() // in case that the create has sent no such request
	if err := <-ended; !errors.Is(err, ErrReused) {
		t.Errorf("%s: the destroy: %v", c.spec.Content, err)
	}
	w.Lock()
	if w.Volume("pve1", c.spec.Volume()) == nil {
		t.Errorf("%s: the file of the new object is gone", c.spec.Content)
	}
	w.Unlock()
}

// TestOneAddressOnTwoNodesOfAStorage: two resources of one apply download one address to a shared storage, by two
// nodes, without a checksum. The second uses the file that the first has made. A run that has not made it refuses it.
func TestOneAddressOnTwoNodesOfAStorage(t *testing.T) {
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}, Web: web("an image of some bytes")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := sim.World()
	w.Lock()
	w.Storages["shared-nfs"].Content = append(w.Storages["shared-nfs"].Content, ISO)
	w.Unlock()
	here := clock.Client{Cluster: w.Clock}
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext,
		Clock: here, APIToken: sim.Credentials().Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	run := func() *Files {
		jobs := request.New(api, here)
		return New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil)
	}
	files := run()
	spec := Spec{Node: "pve1", Storage: "shared-nfs", Content: ISO, URL: "http://mirror.example/disc.iso"}
	if spec.Name, err = Name(spec.Content, "disc.iso", Identity(spec.URL, "")); err != nil {
		t.Fatal(err)
	}
	first, _, err := files.Create(t.Context(), spec)
	if err != nil || !first.Made {
		t.Fatalf("made %t, %v", first.Made, err)
	}
	spec.Node = "pve2"
	if again, _, err := files.Create(t.Context(), spec); err != nil || again.Made {
		t.Errorf("made again %t, %v", again.Made, err)
	}
	other := spec
	other.URL = "http://mirror.example/other.iso"
	if _, _, err := files.Create(t.Context(), other); err == nil {
		t.Error("the file of another address is used")
	}
	if _, _, err := run().Create(t.Context(), spec); err == nil {
		t.Error("a file that another run has made is used without a checksum")
	}
}
