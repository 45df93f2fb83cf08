package cluster

import (
	"crypto/sha1"
	"encoding/hex"

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

const domain = "example.com" // of the nodes

func nodeDNS(*engine.Request) (any, error) {
	return map[string]any{"search": domain, "dns1": "192.0.2.1"}, nil
}

// nodeHosts is /etc/hosts as the installer leaves it.
func nodeHosts(r *engine.Request) (any, error) {
	n := r.W.Nodes[r.Node()]
	if n == nil {
		return nil, engine.UnknownNode(r.Node())
	}
	data := "127.0.0.1 localhost.localdomain localhost\n" + n.Address + " " + n.Name + "." + domain + " " + n.Name + "\n"
	sum := sha1.Sum([]byte(data))
	return map[string]any{"data": data, "digest": hex.EncodeToString(sum[:])}, nil
}
