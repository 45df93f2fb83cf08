# A machine on an ESXi host, switched off.
data "proxmox_import_metadata" "web" {
  volume = "esxi:ha-datacenter/datastore1/web/web.vmx"
}

# The same as a VM. What it is to be stands in the plan.
resource "proxmox_vm" "web" {
  node = "pve1"

  name       = data.proxmox_import_metadata.web.name
  ostype     = data.proxmox_import_metadata.web.ostype
  bios       = data.proxmox_import_metadata.web.bios
  scsihw     = data.proxmox_import_metadata.web.scsihw
  cpu        = data.proxmox_import_metadata.web.cpu
  memory     = data.proxmox_import_metadata.web.memory
  smbios     = data.proxmox_import_metadata.web.smbios
  boot_order = data.proxmox_import_metadata.web.boot_order

  disks    = { for slot, disk in data.proxmox_import_metadata.web.disks : slot => merge(disk, { storage = "local-lvm" }) }
  networks = { for slot, nic in data.proxmox_import_metadata.web.networks : slot => merge(nic, { bridge = "vmbr0" }) }
}
