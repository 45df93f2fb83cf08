// Package function holds the provider's functions. They only compute: none asks a server.
package function

import "github.com/hashicorp/terraform-plugin-framework/function"

// All returns the constructors of all functions.
func All() []func() function.Function {
	var all []func() function.Function
	for _, p := range []pure{volumeID(), parseVolumeID(), parseSize(), formatSize(), macAddress(), slots(), parseSlot()} {
		all = append(all, func() function.Function { return p })
	}
	return all
}
