package firewall

import (
	"maps"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
)

// Routes are the routes of the firewalls of guests, nodes and the cluster.
func Routes() engine.Routes {
	const cluster, node, group = "/cluster/firewall", "/nodes/{node}/firewall", "/cluster/firewall/groups/{group}"
	all := engine.Routes{
		"GET " + cluster:             index("aliases", "rules", "options", "groups", "ipset", "macros", "refs"),
		"GET " + cluster + "/macros": listMacros, "GET " + cluster + "/refs": firewallRefs,
		"GET " + cluster + "/groups": listSecurityGroups, "POST " + cluster + "/groups": createSecurityGroup,
		"DELETE " + group: deleteSecurityGroup,
		"GET " + node:     index("rules", "options", "log"), "GET " + node + "/log": noLog,
	}
	for _, base := range []string{cluster, node} {
		maps.Copy(all, ruleRoutes(base+"/rules"))
		maps.Copy(all, optionRoutes(base))
	}
	maps.Copy(all, setRoutes(cluster))
	for route, f := range ruleRoutes(group) {
		all[route] = inGroup(f)
	}
	for _, base := range []string{"/nodes/{node}/qemu/{vmid}/firewall", "/nodes/{node}/lxc/{vmid}/firewall"} {
		maps.Copy(all, ruleRoutes(base+"/rules"))
		maps.Copy(all, optionRoutes(base))
		maps.Copy(all, setRoutes(base))
		all["GET "+base] = index("rules", "aliases", "ipset", "refs", "options")
		all["GET "+base+"/log"], all["GET "+base+"/refs"] = noLog, firewallRefs
	}
	return all
}

func index(names ...string) engine.Func {
	return func(*engine.Request) (any, error) {
		list := []any{}
		for _, n := range names {
			list = append(list, map[string]any{"name": n})
		}
		return list, nil
	}
}

func ruleRoutes(base string) engine.Routes {
	return engine.Routes{
		"GET " + base: firewallRules, "POST " + base: firewallAddRule, "GET " + base + "/{pos}": firewallRule,
		"PUT " + base + "/{pos}": firewallSetRule, "DELETE " + base + "/{pos}": firewallDeleteRule,
	}
}

func optionRoutes(base string) engine.Routes {
	return engine.Routes{"GET " + base + "/options": firewallOptions, "PUT " + base + "/options": firewallSetOptions}
}

func setRoutes(base string) engine.Routes {
	return engine.Routes{
		"GET " + base + "/aliases":                listAliases,
		"POST " + base + "/aliases":               createAlias,
		"GET " + base + "/aliases/{name}":         readAlias,
		"PUT " + base + "/aliases/{name}":         updateAlias,
		"DELETE " + base + "/aliases/{name}":      deleteAlias,
		"GET " + base + "/ipset":                  listIPSets,
		"POST " + base + "/ipset":                 createIPSet,
		"GET " + base + "/ipset/{name}":           readIPSet,
		"POST " + base + "/ipset/{name}":          addToIPSet,
		"DELETE " + base + "/ipset/{name}":        deleteIPSet,
		"GET " + base + "/ipset/{name}/{cidr}":    readIPSetEntry,
		"PUT " + base + "/ipset/{name}/{cidr}":    updateIPSetEntry,
		"DELETE " + base + "/ipset/{name}/{cidr}": deleteIPSetEntry,
	}
}
