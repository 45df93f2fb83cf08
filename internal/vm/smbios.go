package vm

import (
	"encoding/base64"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

func smbiosOption() leaf[Spec] {
	f := smbiosFormat()
	o := group("smbios1", f, func(s *Spec) *SMBIOS { return &s.SMBIOS }, at("smbios"), configHWType, atStart)
	o.keys = func() []string { return append(f.keys(), "base64") }
	o.read = func(s *Spec, value string) bool { return decodeSMBIOS(&s.SMBIOS, value) }
	o.show = func(s *Spec) (string, bool) {
		value := encodeSMBIOS(s.SMBIOS)
		return value, value != ""
	}
	o.merge = func(dst, want *Spec) {
		f.merge(&dst.SMBIOS, &want.SMBIOS)
		dst.SMBIOS.Base64 = dst.SMBIOS.Base64 || want.SMBIOS.Base64
	}
	return o
}

// smbiosTexts are the sub-keys that base64=1 is about.
func smbiosTexts() []string {
	return []string{"manufacturer", "product", "version", "serial", "sku", "family"}
}

func smbiosFormat() format[SMBIOS] {
	return format[SMBIOS]{
		leaves: []leaf[SMBIOS]{
			text("uuid", func(b *SMBIOS) **string { return &b.UUID }),
			text("manufacturer", func(b *SMBIOS) **string { return &b.Manufacturer }),
			text("product", func(b *SMBIOS) **string { return &b.Product }),
			text("version", func(b *SMBIOS) **string { return &b.Version }),
			text("serial", func(b *SMBIOS) **string { return &b.Serial }),
			text("sku", func(b *SMBIOS) **string { return &b.SKU }),
			text("family", func(b *SMBIOS) **string { return &b.Family }),
		},
		rest: func(b *SMBIOS) *map[string]string { return &b.Rest },
	}
}

// decodeSMBIOS reads smbios1. A text that PVE would not take, or that is not what base64=1
// says, makes the whole option unreadable.
func decodeSMBIOS(b *SMBIOS, value string) bool {
	properties, ok := property.Parse(value, "")
	if !ok {
		return false
	}
	next := *b
	if flag, found := properties["base64"]; found {
		if next.Base64, ok = property.ParseBool(flag); !ok {
			return false
		}
		delete(properties, "base64")
	}
	for _, key := range smbiosTexts() {
		encoded, found := properties[key]
		if !found {
			continue
		}
		if !next.Base64 {
			if !isPlainSMBIOS(encoded) {
				return false
			}
			continue
		}
		plain, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(plain) == 0 {
			return false
		}
		properties[key] = string(plain)
	}
	if !smbiosFormat().readAll(&next, properties) {
		return false
	}
	next.Base64 = next.Base64 && len(properties) > 0
	*b = next
	return true
}

// encodeSMBIOS writes smbios1. A base64=1 that stands alone is the spelling of nothing: it is not written, and
// decodeSMBIOS does not keep it.
func encodeSMBIOS(b SMBIOS) string {
	properties := smbiosFormat().showAll(&b)
	encode := b.Base64 && len(properties) > 0
	for _, key := range smbiosTexts() {
		encode = encode || !isPlainSMBIOS(properties[key])
	}
	if encode {
		for _, key := range smbiosTexts() {
			if plain, ok := properties[key]; ok {
				properties[key] = base64.StdEncoding.EncodeToString([]byte(plain))
			}
		}
		properties["base64"] = "1"
	}
	return property.Print(properties, "")
}

// isPlainSMBIOS says whether PVE takes a text without base64=1: it wants [A-Za-z0-9+/]+={0,2} in any case.
func isPlainSMBIOS(s string) bool {
	body := strings.TrimRight(s, "=")
	if len(s)-len(body) > 2 || body == "" && s != "" {
		return false
	}
	for i := range len(body) {
		if !property.IsLetter(body[i]) && !property.IsDigit(body[i]) && body[i] != '+' && body[i] != '/' {
			return false
		}
	}
	return true
}

// UUID is the machine's SMBIOS uuid in lower case, "" if the configuration has none. It is never base64, whatever
// smbios1 says about its other fields.
func UUID(config map[string]string) string {
	smbios, _ := property.Parse(config["smbios1"], "")
	return strings.ToLower(smbios["uuid"])
}

// CTime is the creation time in seconds since 1970 as it stands in the option meta, "" if it has none. Clones keep the
// time of their source.
func CTime(config map[string]string) string {
	meta, _ := property.Parse(config["meta"], "")
	return meta["ctime"]
}
