package cluster

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/storage"
)

// NodeFileRoutes are the routes of a node's own files: DNS, hosts.
func NodeFileRoutes() engine.Routes {
	return engine.Routes{
		"GET /nodes/{node}/dns":                nodeDNS,
		"GET /nodes/{node}/hosts":              nodeHosts,
		"GET /nodes/{node}/query-url-metadata": storage.URLMetadata,
	}
}

func nodeDNS(r *engine.Request) (any, error) {
	n := r.W.Nodes[r.Node()]
	if n == nil {
		return nil, engine.UnknownNode(r.Node())
	}
	dns, out := n.DNS(), map[string]any{}
	if dns.Search != "" {
		out["search"] = dns.Search
	}
	for i, server := range dns.Servers {
		out[fmt.Sprintf("dns%d", i+1)] = server
	}
	return out, nil
}

// nodeHosts is /etc/hosts as the installer leaves it.
func nodeHosts(r *engine.Request) (any, error) {
	n := r.W.Nodes[r.Node()]
	if n == nil {
		return nil, engine.UnknownNode(r.Node())
	}
	domain := cmp.Or(n.DNS().Search, "localdomain")
	data := "127.0.0.1 localhost.localdomain localhost\n" + n.Address + " " + n.Name + "." + domain + " " + n.Name + "\n"
	sum := sha1.Sum([]byte(data))
	return map[string]any{"data": data, "digest": hex.EncodeToString(sum[:])}, nil
}
