package vm

import (
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// models are the NIC models that can stand as a key before the MAC address ("virtio=BC:24:…").
func models() []string {
	return []string{
		"e1000", "e1000-82540em", "e1000-82544gc", "e1000-82545em", "e1000e", "i82551", "i82557b", "i82559er",
		"ne2k_isa", "ne2k_pci", "pcnet", "rtl8139", "virtio", "vmxnet3",
	}
}

var nicFormat = sync.OnceValue(func() format[NIC] {
	return format[NIC]{
		defaultKey: "model",
		leaves: []leaf[NIC]{
			scalar("macaddr", func(n *NIC) **string { return &n.MACAddr }, property.ParseText, property.ShowText),
			text("bridge", func(n *NIC) **string { return &n.Bridge }),
			integer("tag", func(n *NIC) **int64 { return &n.Tag }),
			list("trunks", func(n *NIC) *[]string { return &n.Trunks }, property.ParseTrunks, property.ShowTrunks),
			flag("firewall", func(n *NIC) **bool { return &n.Firewall }, initial("false")),
			flag("link_down", func(n *NIC) **bool { return &n.LinkDown }, initial("false")),
			integer("mtu", func(n *NIC) **int64 { return &n.MTU }),
			integer("queues", func(n *NIC) **int64 { return &n.Queues }, initial("0")),
			decimal("rate", func(n *NIC) **float64 { return &n.Rate }, initial("0")),
			flag("host-tunnel", func(n *NIC) **bool { return &n.HostTunnel }, usually("`false`"),
				since(9, 2, 3, "9.2", "qemu-server 9.1.18: QemuServer/Network.pm, net_fmt (c180ff75)")),
		},
		rest: func(n *NIC) *map[string]string { return &n.Rest },
	}
})

// decodeNIC accepts "virtio=MAC,…", "model=virtio,macaddr=MAC,…" and "virtio,…".
func decodeNIC(value string) (NIC, bool) {
	var n NIC
	properties, ok := property.Parse(value, "model")
	if !ok {
		return n, false
	}
	for _, model := range models() {
		mac, found := properties[model]
		if !found {
			continue
		}
		if properties["model"] != "" || properties["macaddr"] != "" {
			return n, false
		}
		delete(properties, model)
		properties["model"], properties["macaddr"] = model, mac
	}
	n.Model = properties["model"]
	delete(properties, "model")
	return n, n.Model != "" && nicFormat().readAll(&n, properties)
}

// encodeNIC prints PVE's canonical form: model and MAC address first, then the rest by name.
func encodeNIC(n NIC) string {
	properties := nicFormat().showAll(&n)
	mac := properties["macaddr"]
	if mac == "" || !slices.Contains(models(), n.Model) {
		if n.Model != "" {
			properties["model"] = n.Model
		}
		return property.Print(properties, "model")
	}
	delete(properties, "macaddr")
	return strings.TrimSuffix(n.Model+"="+mac+","+property.Print(properties, ""), ",")
}

func mergeNIC(base, want NIC) NIC {
	if want.Model != "" {
		base.Model = want.Model
	}
	nicFormat().merge(&base, &want)
	return base
}

// rebaseNIC also has the model, and a MAC address that is not planned: Diff keeps both.
func rebaseNIC(server, prior, planned *NIC) {
	nicFormat().rebase(server, prior, planned)
	if planned.Model == "" || planned.Model == prior.Model {
		prior.Model, planned.Model = server.Model, server.Model
	}
	if planned.MACAddr == nil {
		prior.MACAddr = server.MACAddr
	}
}

// rebaseAddress leaves out a gateway of others where the plan changes the address that it belongs to: PVE takes a
// gateway without a fixed address, and gives the guest no address at all then (qemu-server Network.pm parse_ipconfig).
func rebaseAddress(server, prior, planned *Address) {
	has := *server
	if !sameValue(prior.IPv4, planned.IPv4) {
		has.Gateway4 = prior.Gateway4
	}
	if !sameValue(prior.IPv6, planned.IPv6) {
		has.Gateway6 = prior.Gateway6
	}
	addressFormat().rebase(&has, prior, planned)
}

func sameValue(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// addressFormat is ipconfigN. Address has no place for unknown sub-keys: with one, the option is left alone.
func addressFormat() format[Address] {
	return format[Address]{leaves: []leaf[Address]{
		text("ip", func(a *Address) **string { return &a.IPv4 }, at("ipv4")),
		text("gw", func(a *Address) **string { return &a.Gateway4 }, at("gateway4")),
		text("ip6", func(a *Address) **string { return &a.IPv6 }, at("ipv6")),
		text("gw6", func(a *Address) **string { return &a.Gateway6 }, at("gateway6")),
	}}
}
