package vmschema

import "regexp"

// The forms of values, from PVE's API schema (qemu-server QemuServer.pm, PCI.pm, USB.pm, Drive.pm, Memory.pm).
var (
	checksum       = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
	startDate      = regexp.MustCompile(`^(now|\d{4}-\d{1,2}-\d{1,2}(T\d{1,2}:\d{1,2}:\d{1,2})?)$`)
	generationID   = regexp.MustCompile(`^([a-fA-F0-9]{8}(-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}|[01])$`)
	sharedName     = regexp.MustCompile(`^[a-zA-Z0-9-]+$`)
	usbHost        = regexp.MustCompile(`^((0x)?[0-9A-Fa-f]{4}:(0x)?[0-9A-Fa-f]{4}|\d+-\d+(\.\d+)*|[Ss][Pp][Ii][Cc][Ee])$`)
	pciHost        = regexp.MustCompile(`^` + pciAddress + `(;` + pciAddress + `)*$`)
	pciNumber      = regexp.MustCompile(`^0x[0-9a-fA-F]{4}$`)
	romFile        = regexp.MustCompile(`^[^,;\s\pC]+( +[^,;\s\pC]+)*$`)
	mdevType       = regexp.MustCompile(`^[^/\\.:,\s\pC]+( +[^/\\.:,\s\pC]+)*$`)
	mappingID      = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]+$`)
	ranges         = regexp.MustCompile(`^\d+(-\d+)?(;\d+(-\d+)?)*$`)
	serialDevice   = regexp.MustCompile(`^(/dev/[^,]+|socket)$`)
	parallelDevice = regexp.MustCompile(`^(/dev/parport\d+|/dev/usb/lp\d+)$`)
	worldWideName  = regexp.MustCompile(`^0x[0-9a-fA-F]{16}$`)
	scsiVendor     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,8}$`)
	scsiProduct    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,16}$`)
	hypervVendor   = regexp.MustCompile(`^[a-zA-Z0-9]{1,12}$`)
	firewallAction = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{1,19}$`)
	firewallRef    = regexp.MustCompile(`^(\+(guest/|dc/|sdn/)?|guest/|dc/)?[A-Za-z][A-Za-z0-9_-]+$`)
	// an address or a network, or two addresses
	firewallAddress = regexp.MustCompile(`^[0-9A-Fa-f.:]+(/[0-9.]+|-[0-9A-Fa-f.:]+)?$`)

	protocolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+-]*$`)
	portName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+-]*$`)
	macroName    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)
	icmpType     = regexp.MustCompile(`^[A-Za-z][A-Za-z-]*$`)
	guestDevice  = regexp.MustCompile(`^net\d+$`)
	oneLine      = regexp.MustCompile(`^[^\r\n]+$`)
	physBits     = regexp.MustCompile(`^([89]|[1-5][0-9]|6[0-4]|host)$`)

	bridgePattern  = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,15}$`)
	trunkPattern   = regexp.MustCompile(`^[0-9]{1,4}(-[0-9]{1,4})?$`)
	cpuFlagPattern = regexp.MustCompile(`^[+-][a-zA-Z0-9_.-]+$`)
	cpuTypePattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	reportedModel  = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9._-]*|486)$`)
	cpuSetPattern  = regexp.MustCompile(`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`)
	machinePattern = regexp.MustCompile(`^(pc|pc(-i440fx)?-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|` +
		`q35|pc-q35-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|` +
		`virt(-\d+(\.\d+)+)?(\+pve\d+)?)$`)
)

const pciAddress = `([a-f0-9]{4,}:)?[a-f0-9]{2}:[a-f0-9]{2}(\.[a-f0-9])?`
