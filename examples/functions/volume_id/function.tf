output "image" {
  value = provider::proxmox::volume_id("images", "iso", "debian.iso") # images:iso/debian.iso
}
