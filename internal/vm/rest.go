package vm

// WithRest gives a Spec that says less than the server, as one from Terraform's state does, what the server has beyond
// it, as Rest: the options, sub-keys and verbatim parts that no field expresses, and the sub-keys that s does not say.
// Diff then keeps them.
func WithRest(s, server Spec) Spec {
	s.Rest = server.Rest
	for _, o := range options() {
		if o.fillRest != nil {
			o.fillRest(&s, &server)
		}
	}
	for _, f := range families() {
		f.fillRest(&s, &server)
	}
	s.CloudInit.Rest = server.CloudInit.Rest
	eachSlot(&s.Disks, server.Disks, diskFormat().fillRest)
	eachSlot(&s.CDROMs, server.CDROMs, func(d, has *CDROM) { d.Rest = has.Rest })
	if s.EFIDisk != nil && server.EFIDisk != nil {
		disk := *s.EFIDisk
		efiFormat().fillRest(&disk, server.EFIDisk)
		s.EFIDisk = &disk
	}
	if s.TPMState != nil && server.TPMState != nil {
		disk := *s.TPMState
		tpmFormat().fillRest(&disk, server.TPMState)
		s.TPMState = &disk
	}
	return s
}
