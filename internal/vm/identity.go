package vm

import "strings"

// UUID is the machine's SMBIOS uuid in lower case, "" if the configuration has none. It is never base64, whatever
// smbios1 says about its other fields.
func UUID(config map[string]string) string {
	smbios, _ := parseProperties(config["smbios1"], "")
	return strings.ToLower(smbios["uuid"])
}

// CTime is the creation time in seconds since 1970 as it stands in the option meta, "" if it has none. Clones keep the
// time of their source.
func CTime(config map[string]string) string {
	meta, _ := parseProperties(config["meta"], "")
	return meta["ctime"]
}
