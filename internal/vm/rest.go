package vm

import "maps"

// WithRest gives a Spec that knows only what this package models, as one from Terraform's state does, the rest that the
// server has: the options, sub-keys and verbatim parts that no field expresses. Diff then keeps them.
func WithRest(s, server Spec) Spec {
	s.Rest, s.MachineRest, s.CPU.Rest, s.Agent.Rest = server.Rest, server.MachineRest, server.CPU.Rest, server.Agent.Rest
	s.CloudInit.Rest = server.CloudInit.Rest
	s.Disks = withRest(s.Disks, server.Disks, func(d *Disk, from Disk) { d.Rest = from.Rest })
	s.CDROMs = withRest(s.CDROMs, server.CDROMs, func(d *CDROM, from CDROM) { d.Rest = from.Rest })
	s.Networks = withRest(s.Networks, server.Networks, func(n *NIC, from NIC) { n.Rest = from.Rest })
	if s.EFIDisk != nil && server.EFIDisk != nil {
		disk := *s.EFIDisk
		disk.Rest = server.EFIDisk.Rest
		s.EFIDisk = &disk
	}
	if s.TPMState != nil && server.TPMState != nil {
		disk := *s.TPMState
		disk.Rest = server.TPMState.Rest
		s.TPMState = &disk
	}
	return s
}

func withRest[T any](devices, server map[string]T, carry func(to *T, from T)) map[string]T {
	devices = maps.Clone(devices)
	for slot, device := range devices {
		if from, ok := server[slot]; ok {
			carry(&device, from)
			devices[slot] = device
		}
	}
	return devices
}
