// Package tffunction holds the provider's functions. They compute; none asks a server.
package tffunction

import "github.com/hashicorp/terraform-plugin-framework/function"

// All lists the functions.
func All() []func() function.Function {
	var all []func() function.Function
	for _, p := range []pure{volumeID(), parseVolumeID(), parseSize(), formatSize(), macAddress(), slots(), parseSlot()} {
		all = append(all, func() function.Function { return p })
	}
	return all
}
