package handle

import (
	"crypto/sha1"
	"encoding/hex"
)

func nodeFileRoutes() Routes {
	return Routes{
		"GET /nodes/{node}/dns":                nodeDNS,
		"GET /nodes/{node}/hosts":              nodeHosts,
		"GET /nodes/{node}/query-url-metadata": urlMetadata,
	}
}

const domain = "example.com" // of the nodes

func nodeDNS(*Request) (any, error) {
	return map[string]any{"search": domain, "dns1": "192.0.2.1"}, nil
}

// nodeHosts is /etc/hosts as the installer leaves it.
func nodeHosts(r *Request) (any, error) {
	n := r.W.Nodes[r.node()]
	if n == nil {
		return nil, unknownNode(r.node())
	}
	data := "127.0.0.1 localhost.localdomain localhost\n" + n.Address + " " + n.Name + "." + domain + " " + n.Name + "\n"
	sum := sha1.Sum([]byte(data))
	return map[string]any{"data": data, "digest": hex.EncodeToString(sum[:])}, nil
}
