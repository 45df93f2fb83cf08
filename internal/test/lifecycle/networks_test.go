package lifecycle_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const threeNICs = `networks = { net0 = { bridge = "vmbr0" }, net1 = { bridge = "vmbr0", tag = 5 }, net2 = { bridge = "vmbr1", firewall = true } }
cloud_init = { storage = "local-zfs", addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" }, net1 = { ipv4 = "dhcp" } } }
`

// mac is the address of a NIC.
func mac(config map[string]string, slot string) string {
	first, _, _ := strings.Cut(config[slot], ",")
	_, address, _ := strings.Cut(first, "=")
	return address
}

// TestNetworksChangeInPlace: one NIC of several comes, changes or goes. Only its key is sent, with its address of cloud-init,
// and every MAC stays, on running and on stopped guests.
func TestNetworksChangeInPlace(t *testing.T) {
	t.Parallel()
	running, still := rig.NewVM(t, threeNICs).Again(), rig.NewVM(t, rig.Stopped+threeNICs).Again()
	for name, c := range map[string]struct {
		old, to string
		also    string // goes as well
		options string // sent, in order
		renewed bool   // the cloud-init drive of a running guest is written again
		check   func(t *testing.T, before, after map[string]string)
	}{
		"add": {old: `net2 = {`, to: `net5 = { bridge = "vmbr1", model = "e1000" }, net2 = {`, options: " net5"},
		"add with an address": {old: `net2 = { bridge = "vmbr1", firewall = true } }
cloud_init = { storage = "local-zfs", addresses = {`, to: `net5 = { bridge = "vmbr1" }, net2 = { bridge = "vmbr1", firewall = true } }
cloud_init = { storage = "local-zfs", addresses = { net5 = { ipv6 = "auto" },`, options: " ipconfig5 net5", renewed: true},
		"remove":                    {old: `, net2 = { bridge = "vmbr1", firewall = true }`, options: " delete=net2"},
		"remove with its address":   {old: `net1 = { bridge = "vmbr0", tag = 5 }, `, also: `, net1 = { ipv4 = "dhcp" }`, options: " delete=ipconfig1,net1", renewed: true},
		"remove its address alone":  {old: `, net1 = { ipv4 = "dhcp" }`, options: " delete=ipconfig1", renewed: true},
		"change its address alone":  {old: `"10.0.0.5/24"`, to: `"10.0.0.6/24"`, options: " ipconfig0", renewed: true},
		"another bridge and VLAN":   {old: `"vmbr0", tag = 5`, to: `"vmbr1", tag = 6`, options: " net1"},
		"no VLAN any more":          {old: `, tag = 5`, options: " net1"},
		"pull the plug":             {old: `firewall = true`, to: `firewall = true, link_down = true`, options: " net2"},
		"no firewall any more":      {old: `, firewall = true`, options: " net2"},
		"a rate":                    {old: `firewall = true`, to: `firewall = true, rate = 12.5`, options: " net2"},
		"another model, same MAC":   {old: `tag = 5`, to: `tag = 5, model = "e1000"`, options: " net1"},
		"queues, which it replugs":  {old: `tag = 5`, to: `tag = 5, queues = 4`, options: " net1"},
		"a MAC that is configured":  {old: `tag = 5`, to: `tag = 5, macaddr = "bc:24:11:00:00:77"`, options: " net1", renewed: true, check: func(t *testing.T, _, after map[string]string) { wantMAC(t, after, "BC:24:11:00:00:77") }},
		"the MAC that it has, said": {old: `tag = 5`, to: `tag = 5, macaddr = "<net1>"`},
	} {
		for _, power := range []string{"running", "stopped"} {
			t.Run(name+", "+power, func(t *testing.T) {
				with, begin := "", running
				if power == "stopped" {
					with, begin = rig.Stopped, still
				}
				l := begin(t)
				before := l.Config()
				if !strings.Contains(threeNICs, c.old) {
					t.Fatalf("the configuration has no %q", c.old)
				}
				to := strings.Replace(threeNICs, c.old, c.to, 1)
				if c.also != "" {
					to = strings.Replace(to, c.also, "", 1)
				}
				l.To(with + strings.ReplaceAll(to, "<net1>", strings.ToLower(mac(before, "net1"))))
				after := l.Config()
				var want []string
				if c.options != "" {
					want = append(want, "PUT config"+c.options)
				}
				if c.renewed && power == "running" {
					want = append(want, "PUT cloudinit")
				}
				l.WantSent(want...)
				for slot := range before {
					if has := after[slot]; strings.HasPrefix(slot, "net") && has != "" && c.check == nil && mac(after, slot) != mac(before, slot) {
						t.Errorf("the MAC of %s was %s and is %s", slot, mac(before, slot), mac(after, slot))
					}
					if !strings.Contains(c.options, slot) && after[slot] != before[slot] {
						t.Errorf("%s was %q and is %q", slot, before[slot], after[slot])
					}
				}
				if c.check != nil {
					c.check(t, before, after)
				}
				l.WantRunning()
				if waiting := l.Waiting(); len(waiting) > 0 {
					t.Errorf("waits for a restart: %v", waiting)
				}
			})
		}
	}
}

func wantMAC(t *testing.T, config map[string]string, want string) {
	t.Helper()
	if has := mac(config, "net1"); !strings.EqualFold(has, want) {
		t.Errorf("the MAC is %s, want %s", has, want)
	}
}

// TestNICsThatStay: a running guest that does not let a NIC go keeps it, with its address; nothing waits, the state is true,
// and the next plan shows the rest.
func TestNICsThatStay(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, threeNICs)
	before := l.Config()
	l.Guest(func(_ *state.World, g *state.Guest) { g.Ignores = []string{"unplug"} })
	less := strings.Replace(threeNICs, `, net2 = { bridge = "vmbr1", firewall = true }`, "", 1)
	l.Fails(less+"description = \"less\"", "error on hot-unplugging device 'net2'")
	after := l.Config()
	if after["description"] != "less" {
		t.Errorf("what PVE took is not there: description %q", after["description"])
	}
	delete(after, "description")
	if !maps.Equal(before, after) {
		t.Errorf("before %v\nafter %v", before, after)
	}
	if waiting := l.Waiting(); len(waiting) > 0 {
		t.Errorf("waits for a restart: %v", waiting)
	}
	pl := l.Plan(less + "description = \"less\"")
	if text := pl.String(); !strings.Contains(text, "net2") || strings.Contains(text, "description") {
		t.Errorf("the next plan is not the rest:\n%s", text)
	}
	l.Guest(func(_ *state.World, g *state.Guest) { g.Ignores = nil })
	l.To(less + "description = \"less\"")
	if has := l.Config()["net2"]; has != "" {
		t.Errorf("net2 is %q", has)
	}
	l.WantRunning()
}

// TestNICThatIsWantedAgainKeepsItsAddress: an administrator has removed a network device of a running guest whose hotplug
// leaves out networks. The removal waits, and the configuration wants the device: it stays as the guest has it, with its MAC
// address, and nothing is restarted. One that comes back with other values keeps its address.
func TestNICThatIsWantedAgainKeepsItsAddress(t *testing.T) {
	t.Parallel()
	body := func(second string) string {
		return "hotplug = [\"disk\"]\nnetworks = { net0 = { bridge = \"vmbr0\" }, net1 = { " + second + " } }\n"
	}
	for second, want := range map[string]string{
		`bridge = "vmbr0", firewall = true`: "bridge=vmbr0,firewall=1", `bridge = "vmbr0"`: "bridge=vmbr0", `bridge = "vmbr0", tag = 5`: "bridge=vmbr0,tag=5",
	} {
		l := rig.NewVM(t, body(`bridge = "vmbr0", firewall = true`))
		had := mac(l.Config(), "net1")
		l.Guest(func(_ *state.World, g *state.Guest) { g.Deletes = map[string]int{"net1": 1} })
		rig.Must(t, l.Session.Refresh(t.Context()))
		l.To(body(second))
		if is := l.Config()["net1"]; is != "virtio="+had+","+want || had == "" {
			t.Errorf("net1 is %q, its address was %s", is, had)
		}
		if want == "bridge=vmbr0,firewall=1" {
			l.Warned("", "takes back the pending change of net1")
		}
		if waiting := l.Waiting(); len(waiting) > 0 {
			t.Errorf("waits for a restart: %v", waiting)
		}
		l.WantRunning()
	}
	const stopped = "power_state = \"stopped\"\n" // the stop carries out what waits
	l := rig.NewVM(t, body(`bridge = "vmbr0"`))
	had := mac(l.Config(), "net1")
	l.Guest(func(_ *state.World, g *state.Guest) { g.Deletes = map[string]int{"net1": 1} })
	l.World.ExpectPowerOffs(state.PowerShutdown)
	l.To(stopped + body(`bridge = "vmbr0"`))
	wantMAC(t, l.Config(), had)
}
