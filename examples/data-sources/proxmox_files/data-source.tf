data "proxmox_files" "disks" {
  storage = "local-zfs"
  node    = "pve1"
  content = "images"
}

output "disks" {
  value = { for file in data.proxmox_files.disks.files : file.volume => file.size }
}
