package vm

// What a device gets when neither the configuration nor the template says.
const (
	// DefaultCloudInitSlot is where a cloud-init drive goes.
	DefaultCloudInitSlot = "ide2"
	// DefaultNICModel is the model of a network device.
	DefaultNICModel = "virtio"
)
