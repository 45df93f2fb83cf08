package vm

// Complete gives devices that the template does not have what PVE needs to make them.
func Complete(want *Spec) {
	for slot, nic := range want.Networks {
		if nic.Model == "" {
			nic.Model = DefaultNICModel
			want.Networks[slot] = nic
		}
	}
	if want.CloudInit.Storage != "" && want.CloudInit.Slot == "" {
		want.CloudInit.Slot = DefaultCloudInitSlot
	}
}
