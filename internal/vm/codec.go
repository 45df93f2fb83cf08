package vm

import (
	"maps"
	"slices"
	"strings"
)

// passwordOption can be written, but reads back as asterisks.
const passwordOption = "cipassword"

// Decode reads a configuration as GET …/config answers it, numbers as text. It never fails: an option that it does not
// know or cannot read goes to Rest word for word, a sub-key to the Rest of its device. The password is left out. Blank
// values of known options, which PVE stores for an emptied list, count as not set.
//
// The deprecated spellings of a boot order are read as the order that PVE makes of them.
//
// It also reads what is sent to PVE, including the syntax for volumes still to be made.
func Decode(config map[string]string) Spec {
	var s Spec
	keys := Slots(config) // first, in PVE's order: the first cloud-init drive counts
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if _, isDrive := slotRank(key); !isDrive {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if key == passwordOption || decodeOption(&s, key, config[key]) {
			continue
		}
		if s.Rest == nil {
			s.Rest = map[string]string{}
		}
		s.Rest[key] = config[key]
	}
	legacyBoot(&s)
	return s
}

func decodeOption(s *Spec, key, value string) bool {
	if o, ok := optionsByKey()[key]; ok {
		if strings.TrimSpace(value) == "" && key != "boot" {
			return true
		}
		return o.read(s, value)
	}
	if f, ok := familyOf(key); ok {
		return f.read(s, key, value)
	}
	return decodeSlot(s, key, value)
}

func decodeSlot(s *Spec, key, value string) bool {
	if _, isDrive := slotRank(key); !isDrive {
		return false
	}
	switch key {
	case efiSlot:
		d, ok := decodeEFIDisk(value)
		if ok {
			s.EFIDisk = d
		}
		return ok
	case tpmSlot:
		d, ok := decodeTPMState(value)
		if ok {
			s.TPMState = d
		}
		return ok
	}
	return decodeDrive(s, key, value)
}

// Encode prints s as options: existing volumes as PVE stores them, a drive without Volume as the request to make one
// ("local-zfs:32", "local-zfs:0,import-from=…", "local-zfs:cloudinit"). An unset field is left out, Rest is
// included; where both have an option the field wins.
func Encode(s Spec) map[string]string {
	config := map[string]string{}
	maps.Copy(config, s.Rest)
	for _, o := range options() {
		if value, ok := o.show(&s); ok {
			config[o.key] = value
		}
	}
	if hash := s.CloudInit.PasswordHash; hash != nil && *hash != "" {
		config[passwordOption] = *hash
	}
	for _, f := range families() {
		f.show(&s, config)
	}
	encodeDrives(config, s)
	return config
}

func encodeDrives(config map[string]string, s Spec) {
	for slot, d := range s.Disks {
		config[slot] = encodeDisk(d)
	}
	for slot, c := range s.CDROMs {
		config[slot] = encodeCDROM(c)
	}
	if s.CloudInit.Slot != "" {
		config[s.CloudInit.Slot] = encodeCloudInitDrive(s.CloudInit)
	}
	if s.EFIDisk != nil {
		config[efiSlot] = encodeEFIDisk(*s.EFIDisk)
	}
	if s.TPMState != nil {
		config[tpmSlot] = encodeTPMState(*s.TPMState)
	}
}
