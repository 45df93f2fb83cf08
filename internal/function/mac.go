package function

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
)

// proxmoxPrefix is the prefix registered to Proxmox. PVE gives it to new network devices by default (pve-cluster
// DataCenterConfig.pm mac_prefix).
const proxmoxPrefix = "BC:24:11"

func macAddress() pure {
	return pure{name: "mac_address",
		definition: function.Definition{
			Summary: "Makes a MAC address from a name, the same one every time.",
			MarkdownDescription: "Makes a MAC address from a name, the same one every time, so that an address is known " +
				"before its VM is made and stays when the VM is replaced. With the prefix `BC:24:11`, which is Proxmox's own and " +
				"the default, 24 bits come from the name: of 500 names two get the same address in one case of 130, of 5000 " +
				"about every second time. A shorter prefix leaves more: `mac_address(\"web-1/net0\", \"02\")` is locally " +
				"administered and has 40 bits from the name. The name is any text: it should hold whatever makes the device " +
				"unique.",
			Parameters: []function.Parameter{text("name", "Text to make the address from, such as `web-1/net0`.")},
			VariadicParameter: text("prefix",
				"At most one: the first one to five bytes, such as `02` or `BC:24:11`. A locally administered address begins with "+
					"a byte such as `02`."),
			Return: function.StringReturn{},
		},
		run: func(ctx context.Context, req function.RunRequest, resp *function.RunResponse) *function.FuncError {
			var name string
			var prefixes []string
			if err := req.Arguments.Get(ctx, &name, &prefixes); err != nil {
				return err
			}
			prefix := proxmoxPrefix
			switch len(prefixes) {
			case 0:
			case 1:
				prefix = prefixes[0]
			default:
				return function.NewArgumentFuncError(2, "there is only one prefix")
			}
			address, err := macOf(name, prefix)
			if err != nil {
				return function.NewArgumentFuncError(1, err.Error())
			}
			return resp.Result.Set(ctx, address)
		}}
}

// macOf returns an address that consists of a prefix and the beginning of a name's SHA-256.
func macOf(name, prefix string) (string, error) {
	mac, err := hex.DecodeString(strings.ReplaceAll(prefix, ":", ""))
	switch {
	case err != nil || len(mac) == 0 || len(mac) > 5 || len(prefix) != 3*len(mac)-1 || strings.Count(prefix,
		":") != len(mac)-1:
		return "", fmt.Errorf("%q is not one to five pairs of hexadecimal digits separated by colons", prefix)
	case mac[0]&1 == 1:
		return "", fmt.Errorf("%q makes multicast addresses: the lowest bit of the first byte is set", prefix)
	}
	sum := sha256.Sum256([]byte(name))
	mac = append(mac, sum[:6-len(mac)]...)
	return strings.ToUpper(net.HardwareAddr(mac).String()), nil
}
