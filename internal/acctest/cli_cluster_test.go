package acctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

// cluster is where the acceptance tests run: a simulated one, or the one that PROXMOX_VE_ENDPOINT names, where they stay
// within a range of VMIDs of their own and remove what they find in it afterwards.
type cluster struct {
	node, storage, storage2, bridge string
	first, last                     int    // the range of VMIDs, inclusive
	world                           *World // nil on a real cluster
}

// acceptance prepares a test that needs a CLI. On a real cluster such tests run only with TF_ACC set as well.
func acceptance(t *testing.T) *cluster {
	t.Helper()
	useCLI(t)
	c := &cluster{node: "pve1", storage: "local-zfs", storage2: "local-lvm", bridge: "vmbr0", first: 990000, last: 990999}
	if os.Getenv("PROXMOX_VE_ENDPOINT") == "" || os.Getenv("TF_ACC") == "" {
		withoutEnvironment(t)
		c.world = NewWorld(t, pvesim.Options{RealNetwork: true})
		return c
	}
	for name, field := range map[string]*string{"_NODE": &c.node, "_STORAGE": &c.storage, "_STORAGE2": &c.storage2, "_BRIDGE": &c.bridge} {
		if v := os.Getenv("PROXMOX_VE_TEST" + name); v != "" {
			*field = v
		}
	}
	if v := os.Getenv("PROXMOX_VE_TEST_VMID_RANGE"); v != "" {
		first, last, err := vmidRange(v)
		if err != nil {
			t.Fatal(err)
		}
		c.first, c.last = first, last
	}
	if left := c.left(t); len(left) > 0 {
		t.Fatalf("the test range %d-%d is not empty: %s", c.first, c.last, strings.Join(left, ", "))
	}
	t.Cleanup(func() { c.sweep(t) })
	return c
}

// vmidRange reads "990000-990999".
func vmidRange(text string) (first, last int, err error) {
	a, b, ok := strings.Cut(text, "-")
	if ok {
		if first, err = strconv.Atoi(a); err == nil {
			last, err = strconv.Atoi(b)
		}
	}
	if !ok || err != nil || first < 100 || last < first {
		return 0, 0, fmt.Errorf("PROXMOX_VE_TEST_VMID_RANGE: %q is no range such as 990000-990999", text)
	}
	return first, last, nil
}

// useCLI makes terraform-plugin-testing run the CLI of TF_CLI or PATH, and skips the test if there is none.
func useCLI(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a CLI")
	}
	names := []string{"terraform", "tofu"}
	if cli := os.Getenv("TF_CLI"); cli != "" {
		names = []string{cli}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TF_ACC_TERRAFORM_PATH", path)
		t.Setenv("CHECKPOINT_DISABLE", "1")
		// Nothing is installed, so whoever runs this needs none of his own settings; a warning about a missing file
		// confuses the test library, which reads the version from the output of OpenTofu.
		settings := filepath.Join(t.TempDir(), "cli.tfrc")
		if err := os.WriteFile(settings, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TF_CLI_CONFIG_FILE", settings)
		if strings.Contains(filepath.Base(path), "tofu") {
			t.Setenv("TF_ACC_PROVIDER_HOST", "registry.opentofu.org")
		}
		return
	}
	if os.Getenv("TF_CLI") != "" {
		t.Fatalf("TF_CLI=%s is no program", os.Getenv("TF_CLI"))
	}
	t.Skip("neither terraform nor tofu on PATH, and TF_CLI names none")
}

// withoutEnvironment hides the provider's environment variables, which a simulated cluster must not see.
func withoutEnvironment(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "PROXMOX_VE_") {
			t.Setenv(name, "")
		}
	}
}

// test runs steps and wants nothing left afterwards. Each step's configuration is completed by the provider block.
func (c *cluster) test(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	for i := range steps {
		if steps[i].Config != "" {
			steps[i].Config = c.providerBlock() + c.fill(steps[i].Config)
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: map[string]func() (tfprotov6.ProviderServer, error){"proxmox": c.factory()},
		Steps:                    steps,
		CheckDestroy: func(*terraform.State) error {
			if left := c.left(t); len(left) > 0 {
				return fmt.Errorf("left on the server: %s", strings.Join(left, ", "))
			}
			return nil
		},
	})
}

func (c *cluster) factory() drive.Factory {
	if c.world != nil {
		return c.world.Factory()
	}
	return drive.ServerOf(func() frameworkprovider.Provider { return provider.New("test")() })
}

// providerBlock relies on the environment for everything that a real cluster's operator has set there.
func (c *cluster) providerBlock() string {
	if c.world != nil {
		return c.world.ProviderBlock(TokenSSH)
	}
	return "provider \"proxmox\" {}\n"
}

// fill puts the cluster's names into a configuration: NODE, STORAGE, STORAGE2, BRIDGE, and VMID+n.
func (c *cluster) fill(hcl string) string {
	pairs := []string{"STORAGE2", c.storage2, "STORAGE", c.storage, "NODE", c.node, "BRIDGE", c.bridge}
	for n := range 10 {
		pairs = append([]string{fmt.Sprintf("VMID+%d", n), strconv.Itoa(c.first + n)}, pairs...)
	}
	return strings.NewReplacer(pairs...).Replace(hcl)
}

// left lists what the tests' range holds, and on a simulated cluster every other change too.
func (c *cluster) left(t *testing.T) []string {
	t.Helper()
	if c.world != nil {
		return c.world.Leaks()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	api := c.client(t)
	defer api.Close()
	all, err := api.Resources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range all.Guests() {
		if c.ours(g.VMID) {
			names = append(names, fmt.Sprintf("%s on %s", g.ID, g.Node))
		}
	}
	for _, storage := range []string{c.storage, c.storage2} {
		vols, err := api.Content(ctx, c.node, storage, "images", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vols {
			if c.ours(v.VMID) {
				names = append(names, v.ID)
			}
		}
	}
	return names
}

func (c *cluster) ours(vmid int) bool { return vmid >= c.first && vmid <= c.last }

// sweep removes what a failed test left in the range.
func (c *cluster) sweep(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	api := c.client(t)
	defer api.Close()
	all, err := api.Resources(ctx)
	if err != nil {
		t.Errorf("sweep: %v", err)
		return
	}
	for _, g := range all.Guests() {
		if !c.ours(g.VMID) {
			continue
		}
		t.Logf("sweep: removing %s on %s", g.ID, g.Node)
		if err := removeGuest(ctx, api, g.Node, g.VMID); err != nil {
			t.Errorf("sweep: %v", err)
		}
	}
}

func removeGuest(ctx context.Context, api *pve.Client, node string, vmid int) error {
	if err := api.UpdateConfig(ctx, node, vmid, pve.Params{"protection": "0"}); err != nil {
		return err
	}
	if upid, err := api.StopVM(ctx, node, vmid, nil); err == nil {
		if _, err := api.Wait(ctx, upid); err != nil {
			return err
		}
	}
	upid, err := api.DeleteVM(ctx, node, vmid, true)
	if err != nil {
		return err
	}
	_, err = api.Wait(ctx, upid)
	return err
}

// client talks to the real cluster as the environment says.
func (c *cluster) client(t *testing.T) *pve.Client {
	t.Helper()
	api, err := pve.New(pve.Config{
		Endpoint: os.Getenv("PROXMOX_VE_ENDPOINT"), APIToken: os.Getenv("PROXMOX_VE_API_TOKEN"),
		Username: os.Getenv("PROXMOX_VE_USERNAME"), Password: os.Getenv("PROXMOX_VE_PASSWORD"),
		CACertificate: os.Getenv("PROXMOX_VE_CA_CERTIFICATE"),
		Insecure:      os.Getenv("PROXMOX_VE_INSECURE") == "true" || os.Getenv("PROXMOX_VE_INSECURE") == "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func TestVMIDRange(t *testing.T) {
	if first, last, err := vmidRange("990100-990199"); err != nil || first != 990100 || last != 990199 {
		t.Errorf("got %d, %d, %v", first, last, err)
	}
	for _, bad := range []string{"", "1", "99-200", "300-200", "a-b"} {
		if _, _, err := vmidRange(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
