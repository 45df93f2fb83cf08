package pve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// Storage is a storage as seen on one node. Sizes are bytes.
type Storage struct {
	ID, Type string
	// Content is what may be kept on it: images, rootdir, iso, import, snippets, vztmpl, backup; sorted.
	Content []string
	// Enabled is the configuration's word for this node, Active whether it can be used now.
	Enabled, Active, Shared bool
	Total, Used, Avail      int64
}

// Holds tells whether that content type may be kept on it.
func (s Storage) Holds(content string) bool { return slices.Contains(s.Content, content) }

type storageWire struct {
	Storage wire.String `json:"storage"`
	Type    wire.String `json:"type"`
	Content wire.String `json:"content"`
	Enabled wire.Bool   `json:"enabled"`
	Active  wire.Bool   `json:"active"`
	Shared  wire.Bool   `json:"shared"`
	Total   wire.Int    `json:"total"`
	Used    wire.Int    `json:"used"`
	Avail   wire.Int    `json:"avail"`
}

// Storages lists the storages of a node that this identity may see, those for one content type or all when content is
// "". Disabled ones are in the list, with Enabled false.
func (n NodeReader) Storages(ctx context.Context, content string) ([]Storage, error) {
	p := Params{}
	if content != "" {
		p["content"] = content
	}
	list, err := fetch[[]storageWire](ctx, n.client, "list the storages of node "+n.node, "/nodes/"+n.node+"/storage", p)
	if err != nil {
		return nil, err
	}
	out := make([]Storage, 0, len(list))
	for _, w := range list {
		s := Storage{
			ID: string(w.Storage), Type: string(w.Type), Enabled: bool(w.Enabled),
			Active: bool(w.Active), Shared: bool(w.Shared),
			Total: int64(w.Total), Used: int64(w.Used), Avail: int64(w.Avail),
			Content: strings.FieldsFunc(string(w.Content), func(r rune) bool { return r == ',' || r == ' ' }),
		}
		slices.Sort(s.Content)
		out = append(out, s)
	}
	return out, nil
}

// Volume is one item on a storage. Sizes are bytes.
type Volume struct {
	// ID is the volid: "local-zfs:vm-100-disk-0".
	ID string
	// VMID is the owner by the volume's name, 0 without one; whether such a VM exists is another matter.
	VMID int
	// Format is raw, qcow2 …; Parent the base volume of a linked clone; Content images, iso …
	Format, Parent, Content string
	// Size is the guest's view; 0 when the storage does not tell it. Approximate is what an inactive qcow2 volume on LVM
	// takes with its tables, in the place of Size (pve-storage 9.1.5 and later, LVMPlugin.pm list_images).
	Size, Approximate, Used int64
	// CreatedAt is the zero time when the storage does not know.
	CreatedAt time.Time
	Verified  Verification
}

// Verification is the last one of a backup by its backup server (pve-storage PBSPlugin.pm list_volumes): "ok" or
// "failed", and the server's task.
type Verification struct{ State, UPID string }

type volumeWire struct {
	VolID   wire.String `json:"volid"`
	VMID    wire.Int    `json:"vmid"`
	Format  wire.String `json:"format"`
	Parent  wire.String `json:"parent"`
	Content wire.String `json:"content"`
	Path    wire.String `json:"path"` // of one that is asked for by itself
	Size    wire.Int    `json:"size"`
	Used    wire.Int    `json:"used"`
	CTime   wire.Int    `json:"ctime"`

	Approximate wire.Int     `json:"approximate-size"`
	Verified    Verification `json:"verification"`
}

// Content lists a storage: one content type or all when content is "", one owner or all when vmid is 0. Volumes of
// other owners, and orphans, are silently left out unless this identity has Datastore.Allocate, or Datastore.Audit
// and VM.Config.Disk on the owner (pve-storage check_volume_access).
func (s StorageReader) Content(ctx context.Context, content string, vmid int) ([]Volume, error) {
	p := Params{}
	if content != "" {
		p["content"] = content
	}
	if vmid != 0 {
		p["vmid"] = strconv.Itoa(vmid)
	}
	op := "list the content of storage " + s.storage + " on node " + s.node
	list, err := fetch[[]volumeWire](ctx, s.client, op, "/nodes/"+s.node+"/storage/"+s.storage+"/content", p)
	if err != nil {
		return nil, err
	}
	out := make([]Volume, 0, len(list))
	for _, w := range list {
		out = append(out, Volume{
			ID: string(w.VolID), VMID: int(w.VMID), Format: string(w.Format), Parent: string(w.Parent),
			Content: string(w.Content),
			Size:    int64(w.Size), Approximate: int64(w.Approximate), Used: int64(w.Used), CreatedAt: unixTime(w.CTime),
			Verified: w.Verified,
		})
	}
	return out, nil
}

// ArchiveConfig is the text of the configuration in a backup of a guest, as PVE keeps configurations.
func (v VolumeReader) ArchiveConfig(ctx context.Context) (string, error) {
	text, err := fetch[wire.String](ctx, v.client, "read the configuration in "+v.id,
		"/nodes/"+v.node+"/vzdump/extractconfig",
		Params{"volume": v.id})
	return string(text), err
}

// Size is the size that a guest sees of a volume, in bytes. A listing says the size of the file (pve-storage
// API2/Storage/Content.pm, Storage/Plugin.pm get_subdir_files).
func (v VolumeReader) Size(ctx context.Context) (int64, error) {
	storage, _, _ := strings.Cut(v.id, ":")
	w, err := fetch[volumeWire](ctx, v.client, "read the size of "+v.id,
		"/nodes/"+v.node+"/storage/"+storage+"/content/"+v.id, nil)
	return int64(w.Size), err
}

// Path is the path of a volume on a node, as its storage says.
func (v VolumeReader) Path(ctx context.Context) (string, error) {
	storage, _, _ := strings.Cut(v.id, ":")
	w, err := fetch[volumeWire](ctx, v.client, "look where "+v.id+" is",
		"/nodes/"+v.node+"/storage/"+storage+"/content/"+v.id, nil)
	return string(w.Path), err
}

// ImportMetadata is what PVE makes of a guest of another hypervisor: a machine on an ESXi host, or an appliance.
type ImportMetadata struct {
	// Options are those of a create, by PVE's names, without disks and network devices.
	Options map[string]string
	// Disks are the volumes to import by the slot for them.
	Disks map[string]ImportDisk
	// Networks are the sub-keys of the network devices by slot: model, macaddr.
	Networks map[string]map[string]string
	Warnings []ImportWarning
}

// ImportDisk is a volume to import, with its virtual size in bytes, 0 where PVE does not know it.
type ImportDisk struct {
	Volume string
	Size   int64
}

// ImportWarning is what an import loses or changes: Type is PVE's word for it, Key and Value what it is about, if
// anything.
type ImportWarning struct{ Type, Key, Value string }

type importWire struct {
	Options  map[string]wire.String            `json:"create-args"`
	Disks    map[string]json.RawMessage        `json:"disks"`
	Networks map[string]map[string]wire.String `json:"net"`
	Warnings []struct {
		Type  wire.String `json:"type"`
		Key   wire.String `json:"key"`
		Value wire.String `json:"value"`
	} `json:"warnings"`
}

// ImportMetadata reads a machine on an ESXi host ("ha-datacenter/datastore1/web/web.vmx") or an appliance
// ("import/web.ova"); the volume is named without its storage (pve-storage API2/Storage/Status.pm
// get_import_metadata, ESXiPlugin.pm, GuestImport/OVF.pm).
func (s StorageReader) ImportMetadata(ctx context.Context, volume string) (ImportMetadata, error) {
	op := "read the import metadata of " + s.storage + ":" + volume + " on node " + s.node
	got, err := fetch[importWire](ctx, s.client, op, "/nodes/"+s.node+"/storage/"+s.storage+"/import-metadata",
		Params{"volume": volume})
	if err != nil {
		return ImportMetadata{}, err
	}
	m := ImportMetadata{Options: plainTexts(got.Options), Disks: map[string]ImportDisk{},
		Networks: map[string]map[string]string{}}
	for slot, raw := range got.Disks {
		if raw[0] != '{' { // an EFI disk is a bare 1: its variables are made from the start (ESXiPlugin.pm get_create_args)
			continue
		}
		var disk struct {
			Volume wire.String `json:"volid"`
			Size   wire.Int    `json:"size"`
		}
		if err := json.Unmarshal(raw, &disk); err != nil {
			return ImportMetadata{}, fmt.Errorf("%s: disk %s: %w", op, slot, err)
		}
		m.Disks[slot] = ImportDisk{Volume: string(disk.Volume), Size: int64(disk.Size)}
	}
	for slot, options := range got.Networks {
		m.Networks[slot] = plainTexts(options)
	}
	for _, w := range got.Warnings {
		m.Warnings = append(m.Warnings, ImportWarning{string(w.Type), string(w.Key), string(w.Value)})
	}
	return m, nil
}

// plainTexts leaves out what is not said: PVE has an empty text or null there.
func plainTexts(texts map[string]wire.String) map[string]string {
	out := map[string]string{}
	for key, value := range texts {
		if value != "" {
			out[key] = string(value)
		}
	}
	return out
}

// Download starts a node's download of a file onto one of its storages; p has url, content, filename and what else
// PVE takes. A file of that name is only replaced by nothing: with a checksum PVE looks whether it has the file
// already, without one it refuses (pve-common Tools.pm download_file_from_url). It needs Datastore.AllocateTemplate
// on the storage, and Sys.AccessNetwork on the node, or Sys.Audit and Sys.Modify on / (pve-storage
// API2/Storage/Status.pm download_url).
func (s StorageClient) Download(ctx context.Context, p Params) (UPID, error) {
	op := "download " + p["filename"] + " to storage " + s.storage + " on node " + s.node
	return s.client.start(ctx, op, http.MethodPost, "/nodes/"+s.node+"/storage/"+s.storage+"/download-url", p)
}

// Upload is a file of this machine on its way to a storage.
type Upload struct {
	// Content is iso, import or vztmpl; Filename the name that the file is to have.
	Content, Filename string
	// Checksum is verified by PVE before the file is put in its place; Algorithm is sha256 or another that PVE knows.
	Checksum, Algorithm string
	Size                int64
	// Open gives the bytes, again for each try.
	Open func() (io.ReadCloser, error)
	// Sent, if set, is told how many of them have left this machine.
	Sent func(ctx context.Context, bytes int64)
}

// Upload sends a file and starts the task that verifies it and puts it in its place. **A file of that name is
// overwritten** (pve-storage API2/Storage/Status.pm upload). The file passes through memory in small pieces, and
// through /var/tmp of the node that the endpoint names.
//
// PVE looks at the request when its last byte is there (pve-http-server AnyEvent.pm file_upload_multipart), so one
// that broke off before has done nothing, and the error is not Ambiguous.
func (s StorageClient) Upload(ctx context.Context, u Upload) (UPID, error) {
	head, tail, boundary, err := u.frame()
	op := "upload " + u.Filename + " to storage " + s.storage + " on node " + s.node
	if err != nil {
		return "", &Error{Op: op, Kind: Invalid, Message: err.Error(), Err: err}
	}
	r := &transport.Request{
		Op: op, Method: http.MethodPost, Path: "/nodes/" + s.node + "/storage/" + s.storage + "/upload",
		Params: Params{"content": u.Content, "filename": u.Filename, "checksum": u.Checksum,
			"checksum-algorithm": u.Algorithm},
		File: &transport.File{ContentType: "multipart/form-data; boundary=" + boundary, Length: int64(len(head)) + u.Size +
			int64(len(tail)),
			Open: func(ctx context.Context) (io.Reader, io.Closer, error) {
				file, err := u.Open()
				if err != nil {
					return nil, nil, err
				}
				counted := &countingReader{from: io.LimitReader(file, u.Size), tell: func(n int64) {
					if u.Sent != nil {
						u.Sent(ctx, n)
					}
				}}
				return io.MultiReader(bytes.NewReader(head), counted, bytes.NewReader(tail)), file, nil
			}},
	}
	env, err := s.client.do(ctx, r)
	if err != nil {
		return "", err
	}
	var text wire.String
	if err := json.Unmarshal(env.Data, &text); err != nil {
		return "", s.client.conn.BadAnswer(r, http.StatusOK, err)
	}
	upid, err := ParseUPID(string(text))
	if err != nil {
		return "", s.client.conn.BadAnswer(r, http.StatusOK, err)
	}
	return upid, nil
}

// frame is what goes before and after the bytes of the file. PVE wants its fields in this order, and the file last,
// in a field that is called "filename" (pve-http-server AnyEvent.pm file_upload_multipart).
func (u Upload) frame() (head, tail []byte, boundary string, err error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, field := range [][2]string{{"content", u.Content}, {"checksum-algorithm", u.Algorithm},
		{"checksum", u.Checksum}} {
		if field[1] == "" {
			continue
		}
		if err := form.WriteField(field[0], field[1]); err != nil {
			return nil, nil, "", err
		}
	}
	if strings.ContainsAny(u.Filename, "\"\\\r\n") {
		return nil, nil, "", errors.New("a file cannot be uploaded under a name with a quote, a backslash or a line break")
	}
	if _, err := form.CreateFormFile("filename", u.Filename); err != nil {
		return nil, nil, "", err
	}
	length := b.Len()
	if err := form.Close(); err != nil {
		return nil, nil, "", err
	}
	all := b.Bytes()
	return all[:length:length], all[length:], form.Boundary(), nil
}

// countingReader tells how much was read.
type countingReader struct {
	from io.Reader
	n    int64
	tell func(int64)
}

// Read reads on.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.n += int64(n); n > 0 {
		c.tell(c.n)
	}
	return n, err
}
